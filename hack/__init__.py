"""Programs for the development of this project."""

import logging

# They report for themselves; a simulated daemon meets thousands of problems.
logging.getLogger("registry_controller").addHandler(logging.NullHandler())
