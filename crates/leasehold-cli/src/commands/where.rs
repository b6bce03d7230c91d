//! `leasehold where`: which store is used, and why.

use leasehold::store::check_url;
use serde::Serialize;

use crate::args::Where;
use crate::report::{Failure, Outcome, escaped, print, print_json};
use crate::store_choice;

#[derive(Serialize)]
struct ChoiceView {
    store: String,
    because: String,
}

/// Prints the choice and its reason, and says so if it cannot be one.
pub(crate) fn print_choice(args: &Where) -> Outcome {
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let line = ChoiceView { store: choice.url.to_string(), because: choice.because.to_string() };
    match args.output.json {
        true => print_json(&line)?,
        false => print(format_args!("{}  ({})", escaped(&line.store), escaped(&line.because)))?,
    }
    check_url(choice.url.reveal())
        .map_err(|error| Failure::usage(format!("{}: {error}", line.because)))?;
    Ok(0)
}
