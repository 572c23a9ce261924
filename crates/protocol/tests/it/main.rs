//! Tests the types against the recordings, and against malicious texts.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tools;
