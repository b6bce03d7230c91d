//! The data parts: every store keeps the same promises, and the scripts mean what the model means.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod race;
