#!/usr/bin/env python
"""Write a run's trained network for consumers that have no XLA, or no TensorFlow.

    python scripts/export_model.py run=outputs/mine output=mine.tflite                 # LiteRT
    python scripts/export_model.py run=outputs/mine output=mine.onnx batch_size=1      # ONNX

The file takes normalised amplitudes, offsets and the probe, all real, and gives object regions;
scripts/run_exported.py runs it without TensorFlow. All keys: conf/lite/export_model.yaml.

Exit code: 0 written, 1 it could not be written, 2 the run or the arguments cannot be used.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("export-model").main(__doc__)
