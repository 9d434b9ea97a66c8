"""From a measured scan to an object that is judged: what the command line and the Python interface share."""
