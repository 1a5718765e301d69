"""`hack/image`: builds the image without Docker and without a registry, and prints its size.

assemble    collects the files of the image; the Dockerfile runs it
base        the base image: Debian with Python, made by debootstrap
build       builds the image by buildah, once for each content, and unpacks it
packages    the test packages for the Python of the image

Law: the image depends on the files of this checkout and the base only. The machine's CA bundle and package index are
for the build: they are in no layer of the image.
"""

from __future__ import annotations

import argparse
import sys


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    made = argparse.ArgumentParser(prog="hack/image", description="Build the image without Docker.")
    made.add_argument("--tag", default="localhost/registry-controller:dev", help="name of the image (%(default)s)")
    made.add_argument("--archive", action="store_true", help="print the path of the OCI archive only")
    return made


def main(options: argparse.Namespace) -> int:
    """Build the image, unless it is cached, and print its name, size and archive."""
    from hack.controlplane.errors import BuildError

    from .build import ensure_image

    try:
        image = ensure_image(options.tag)
    except BuildError as error:
        print(f"hack/image: {error}", file=sys.stderr)
        return 1
    if options.archive:
        print(image.archive)
        return 0
    print(f"image    {image.tag}")
    print(f"archive  {image.archive}, {image.archive.stat().st_size / 2**20:.0f} MiB")
    print(f"root     {image.root}, {image.size_mib():.0f} MiB")
    for name, mib in image.largest():
        print(f"         {mib:5.1f} MiB  {name}")
    return 0
