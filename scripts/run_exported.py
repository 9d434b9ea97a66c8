#!/usr/bin/env python
"""Reconstruct new data with an exported network, by its own runtime: no TensorFlow is needed.

    python scripts/run_exported.py model=mine.tflite data=new.npz output_dir=outputs/new
    python scripts/run_exported.py model=mine.onnx data=new.npz threads=1 stitch=grid overwrite=true

The file is what scripts/export_model.py wrote; .tflite is run by ai-edge-litert, .onnx by onnxruntime. The
data are a measured scan, as for scripts/scan_workflow.py, with probe and positions in one file. Written is
recon.npz (object and mask). All keys: conf/lite/run_exported.yaml.

Exit code: 0 done, 1 it failed, 2 the model, the data or the arguments cannot be used.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("run-exported").main(__doc__)
