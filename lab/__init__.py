"""A lab that races GPU kernels against each other: fairly, verified, tile by tile."""
