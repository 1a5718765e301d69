"""`make demo`: three clusters find each other and synchronize objects, shown in the terminal with the real commands.

terminal   the output: steps, commands and their results
picture    the status of the group as an SVG
stage      the three clusters and their daemons, as a protocol
loopback   a stage on control planes on loopback
contexts   a stage on existing clusters of the user
story      the steps
"""
