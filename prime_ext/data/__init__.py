"""Data files of the package; see README.md there."""
