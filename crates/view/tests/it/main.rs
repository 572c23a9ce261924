//! What faces show, as scripts of events.

#[cfg(test)]
mod fold;
#[cfg(test)]
mod from_files;
#[cfg(test)]
mod remark;
#[cfg(test)]
mod script;
#[cfg(test)]
mod stream;
