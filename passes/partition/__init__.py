"""Groups of operators: patterns, fusion, and regions for other compilers."""
