//! `leasehold where`: prints the store that is used, and why.

use leasehold::store::check_url;
use serde::Serialize;

use crate::args::PlainOutputArgs;
use crate::report::{Failure, Outcome, escaped, print, print_json};

#[derive(Serialize)]
struct ChoiceView {
    store: String,
    because: String,
}

/// Prints the chosen store and the reason, and then fails if it is no valid store URL.
pub(crate) fn print_choice(args: &PlainOutputArgs) -> Outcome {
    let choice = args.store.choose()?;
    let line = ChoiceView { store: choice.url.to_string(), because: choice.because.to_string() };
    match args.json {
        true => print_json(&line)?,
        false => print(format_args!("{}  ({})", escaped(&line.store), escaped(&line.because)))?,
    }
    check_url(choice.url.reveal())
        .map_err(|error| Failure::usage(format!("{}: {error}", line.because)))?;
    Ok(0)
}
