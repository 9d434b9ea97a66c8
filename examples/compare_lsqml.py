"""The solver beside LSQ-ML of pty-chi, on one scan with a known answer.

    python examples/compare_lsqml.py

LSQ-ML is an optional part: pip install -c constraints.txt -e 'extras/lsqml[ptychi]'.

Both see the same patterns, the same probe and the same positions, which the beamline has recorded wrongly
by half a pixel. Both are compared on held-out patterns, and with the truth.
"""

import ptycho

WRONG = {"position_px": 0.5}


def main(N: int = 64, n_positions: int = 400, epochs: int = 100, **solver) -> dict[str, ptycho.Result]:
    scan = ptycho.simulate(N, n_positions, nphotons=1e6, imperfections=WRONG, seed=3)
    results = {"solver": ptycho.reconstruct(scan, **solver)}
    try:
        results["lsqml"] = ptycho.reconstruct(scan, method="lsqml", epochs=epochs)
    except ptycho.ConfigError as error:
        print(f"without LSQ-ML: {error}")

    for name, result in results.items():
        r_free, truth = result.scores["r_free"], result.scores["reference_comparison"]
        error = "unknown" if truth is None else f"{truth['relative_error']:.4f}"
        print(f"{name:8} r_free {r_free:.4f}   error of the object {error}")
    return results


if __name__ == "__main__":
    main()
