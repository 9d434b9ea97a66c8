"""Your own loss of the network.

    ptycho scan data.file=scan.cxi nepochs=10 loss=own_loss:logarithmic mae_weight=0
    output_dir=outputs/own_loss

It is called by keyword with amplitudes ``predicted`` and ``measured`` (B, C, N, N), the ``objects`` (B, R, R)
complex64 and the ``normalisation`` f (amplitude/f is √counts), and gives a scalar. It is added to the other
losses with the weight one; its column in history.csv is ``own``.
"""

import tensorflow as tf


def logarithmic(predicted, measured, objects, normalisation):
    """Mean of ``|log(1 + x̂/f) − log(1 + x/f)|``: pixels at the edge count as much as those in the centre."""
    del objects
    return tf.reduce_mean(
        tf.abs(tf.math.log1p(predicted / normalisation) - tf.math.log1p(measured / normalisation))
    )
