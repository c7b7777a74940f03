"""Report: figures, one page and tables from results that were read; nothing here measures or decides."""
