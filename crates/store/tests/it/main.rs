//! The store as others use it: the suite of every backend, and what only files must stand.

#[cfg(test)]
mod suite;
