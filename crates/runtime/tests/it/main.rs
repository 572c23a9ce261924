//! Integration tests of the runtime: real processes, real folders.

mod hooks;
