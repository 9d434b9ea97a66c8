"""What several test modules share: scans, command lines, files that break, reference loops."""
