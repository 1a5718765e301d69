"""What holds for every test."""

import signal

# A shell that starts us in the background lets us ignore SIGINT, and every program that we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
