//! `leasehold where`: which store is used, and why.

use serde::Serialize;

use crate::args::Where;
use crate::report::{Outcome, escaped, print, print_json};
use crate::store_choice;

#[derive(Serialize)]
struct Line {
    store: String,
    because: String,
}

/// Prints the choice and its reason.
pub(crate) fn print_choice(args: &Where) -> Outcome {
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let line = Line { store: choice.url.to_string(), because: choice.because.to_string() };
    match args.output.json {
        true => print_json(&line)?,
        false => print(format_args!("{}  ({})", escaped(&line.store), escaped(&line.because)))?,
    }
    Ok(0)
}
