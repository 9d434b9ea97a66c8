"""Follow a reconstruction: every phase, step, decision and score into a CSV, or into MLflow.

python examples/follow_events.py FILE events.csv
python examples/follow_events.py FILE mlflow            needs: pip install mlflow
"""

import csv
import json
import sys

import ptycho


def into_csv(path):
    """An ``on_event`` that appends rows: time, kind, name, values as JSON."""
    rows = csv.writer(open(path, "w", newline="", buffering=1))  # noqa: SIM115  (as long as the program)
    rows.writerow(["time", "kind", "name", "values"])
    return lambda event: rows.writerow([event.time, event.kind, event.name, json.dumps(dict(event.values))])


def into_mlflow(scan):
    """An ``on_event`` that logs numbers as metrics, and decisions as tags."""
    import mlflow

    mlflow.start_run(run_name=scan.name)

    def log(event):
        if event.kind == "decision":
            mlflow.set_tag(event.name, f"{event.values['value']} ({event.values['why']})")
            return
        numbers = {key: value for key, value in event.values.items() if isinstance(value, int | float)}
        step = numbers.pop("step", None)
        mlflow.log_metrics({f"{event.name}_{key}": value for key, value in numbers.items()}, step=step)

    return log


if __name__ == "__main__":
    scan = ptycho.open_scan(sys.argv[1])
    follow = into_mlflow(scan) if sys.argv[2] == "mlflow" else into_csv(sys.argv[2])
    result = ptycho.reconstruct(scan, on_event=follow)
    print(result.scores["r_factor"], result.scores["flags"])
