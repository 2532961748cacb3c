"""The report page: one file that opens in a browser and in which jobs are rotated by hand."""
