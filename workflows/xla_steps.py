"""The steps to compiled networks, taken in a process of their own, because one that fails may end it."""

from functools import partial


def main() -> None:
    """Take the steps; before each, print its name and what to do if it fails."""
    begin = partial(print, sep="|", flush=True)
    begin("import TensorFlow", "Reinstall: pip install 'tensorflow[and-cuda]==2.21.*'.")
    import tensorflow as tf

    begin("find devices", "The driver is older than CUDA, or LD_LIBRARY_PATH hides its libraries: unset it.")
    devices = [device.name for kind in ("GPU", "CPU") for device in tf.config.list_logical_devices(kind)]

    def run(function, *shapes, compiled=True):
        for device in devices:
            with tf.device(device):
                tf.function(function, jit_compile=compiled)(*map(tf.ones, shapes)).numpy()

    begin(
        "run without XLA",
        "TensorFlow does not run here: check nvidia-smi and the versions of CUDA and cuDNN.",
    )
    run(tf.matmul, (8, 8), (8, 8), compiled=False)
    begin(
        "compile an addition",
        "An unknown entry in TF_XLA_FLAGS or XLA_FLAGS ends the process: unset both, then add them singly. "
        "On a GPU, XLA needs libdevice and ptxas: install nvidia-cuda-nvcc-cu12, or let "
        "XLA_FLAGS=--xla_gpu_cuda_data_dir point to a CUDA installation.",
    )
    run(lambda x: x + 1, (4,))
    begin(
        "compile a matrix product",
        "cuBLAS has no memory? Close programs, set TF_FORCE_GPU_ALLOW_GROWTH=true.",
    )
    run(tf.matmul, (64, 64), (64, 64))
    begin("compile a convolution", "cuDNN is older than the one TensorFlow was built with: upgrade it.")
    run(lambda x, kernel: tf.nn.conv2d(x, kernel, 1, "SAME"), (1, 16, 16, 4), (3, 3, 4, 4))
    begin("compile a Fourier transform", "cuFFT does not load: reinstall tensorflow[and-cuda].")
    run(lambda x: tf.signal.fft2d(tf.complex(x, x)), (2, 16, 16))


if __name__ == "__main__":
    main()
