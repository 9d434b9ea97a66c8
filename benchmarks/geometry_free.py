"""One set of weights on scans with other geometries than in training: scores without further training.

    python benchmarks/geometry_free.py RUN        RUN: folder of a finished run with model=unrolled…

Every scan is simulated with the test object of the run, unless N differs. The first row is the test scan of
the run. Columns: amplitude and phase SSIM of the network alone (``stitch=probe``) and after ten steps of the
solver, whether the probe is far from that of the training, and groups per second.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import parser
from benchmarks.grid_scans import refine, ssim_text
from benchmarks.tables import last_line, markdown
from ptycho.config import RunConfig
from ptycho.reconstruction.stitching import stitch
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import is_far_from
from ptycho.scan.reconstruction import Reconstruction
from ptycho.simulation.simulate import simulate


def scans(config: RunConfig) -> dict[str, Dataset]:
    """Return test scans by name."""

    def test(**changes: object) -> Dataset:
        smaller = {"nimgs_train": 1, "max_groups_train": 64, "nimgs_test": 1, "nepochs": 1, "batch_size": 16}
        return simulate(replace(config, **(smaller | changes)))[0]["test"]

    own = test()
    jittered = test(scan=replace(config.scan, jitter=3.0))
    wide = {"N": 2 * config.N, "size": config.size + 2 * config.N}
    found = {"as in training": own, "positions shifted by up to 3 px": jittered}
    for count in (3, 4, 7):
        found[f"groups of the {count} nearest patterns"] = own.regrouped(count)
        found[f"groups of the {count} nearest, shifted"] = jittered.regrouped(count)
    return found | {
        f"N = {2 * config.N}": test(**wide),
        f"N = {2 * config.N}, shifted": test(**wide, scan=replace(config.scan, jitter=3.0)),
    }


def scored(model: LoadedModel, data: Dataset) -> dict[str, object]:
    """Return a row of the table: scores and speed on one scan."""
    began = time.perf_counter()
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    model.predict_regions(data, regions)
    seconds = time.perf_counter() - began
    row: dict[str, object] = {"R": data.region_size, "C": data.group_size, "patterns": len(data.amplitudes)}
    stitched = stitch(regions, data, "probe")
    row["probe"] = ssim_text(stitched, data)
    refined = refine(stitched.objects, data, 10)
    row["refined"] = ssim_text(Reconstruction(refined, stitched.mask), data)
    far = is_far_from(data.probe, model.probe)
    return row | {"probe far": "yes" if far else "no", "groups/s": f"{data.n_groups / seconds:.0f}"}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("run", type=Path, help="folder of a finished run")
    model = load_model(options_of.parse_args().run)
    rows = []
    for name, data in scans(model.config).items():
        rows.append({"scan": name} | scored(model, data))
        print(last_line(rows[-1]), flush=True)
    print("\n" + markdown(rows))


if __name__ == "__main__":
    main()
