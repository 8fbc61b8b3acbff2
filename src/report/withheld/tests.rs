//! Put away and read again, and what is left of it meanwhile.
