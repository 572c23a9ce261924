//! The types against the recordings, and against texts that nobody should send.

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
