//! Attack tests of the engine.
