"""`make demo`: three clusters find each other and keep in step, told in the terminal with the real commands.

terminal   what the reader sees: steps, commands, their output
stage      where it plays: which contexts, and who runs the daemons
own        a stage of our own: control planes on loopback
theirs     a stage on clusters that the user has already
story      what happens
"""
