"""From patterns to objects: grid lines and measured scans."""
