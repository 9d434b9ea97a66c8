"""From a measured file to a picture.

    python examples/measured_file.py scan.cxi

A scan is opened and how it was read is printed before anything is computed. The solver then finds
the most likely object; it refines probe and positions only where the held-out patterns are explained
better by that.
"""

import sys
from pathlib import Path

import ptycho


def main(file: str | Path, folder: str | Path = ".", **solver) -> ptycho.Result:
    scan = ptycho.open_scan(file)  # what the file does not say: energy_eV=8800, unit="um", …
    print(scan)
    print(*scan.findings, sep="\n")

    result = ptycho.reconstruct(scan, **solver)
    print(result)
    print(*result.decisions, sep="\n")

    result.plot().savefig(Path(folder) / "object.png")
    result.save(Path(folder) / "product.h5")
    return result


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
