"""From files to files: scans simulated, inspected and exported; networks exported and run as exports."""
