"""The programs of `hack/`. The link `hack/NAME` runs program NAME: `parser` reads the arguments, `main` does the work.

bench      measures against the barest client
explore    searches all interleavings of a few acts in an abstract group of three
faults     injects faults into groups on real control planes
fuzz       runs property and differential tests on random examples
image      builds the image without Docker
planted    plants bugs, and reports which check finds each
scrape     lets a real Prometheus scrape a group, and asks it for each panel and alert
sentences  measures the sentences of the guides
sim        runs random schedules on simulated groups
soak       runs a group for long, and checks that its daemons do not grow
walks      measures how far four changes walk through the daemon's files
wheels     searches for a wheel of each locked package
words      finds words and openings that the project's texts do not use
zipapp     builds the command line as one file for each platform
"""
