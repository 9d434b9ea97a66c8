"""From a measured scan to a scored object: the steps that the command line and the Python interface share."""
