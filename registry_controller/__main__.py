"""`python -m registry_controller` is `registry-controller`."""

from registry_controller.cli import main

if __name__ == "__main__":
    main()
