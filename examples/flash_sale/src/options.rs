//! The command line.

use std::time::Duration;

use crate::outcome::Outcome;
use crate::sale::Way;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
usage: flash-sale [--store URL] [--orders N] [--way WAY]… [--kill-every SPAN]

A flash sale by eight processes: 200 products, 20 000 users, at most one of a product per user.

  --store URL        the Redis or Valkey server with the locks and the stock; without it, a private
                     one, for which redis-server must be installed
  --orders N         how many orders: 100000 (100 to 10000000); units grow with them
  --way WAY          only this way: lock, batch, stock, version or naive; may be repeated
  --kill-every SPAN  kills one of the processes so often, and starts it again: 200ms
";

/// How many orders there may be.
const ORDERS: std::ops::RangeInclusive<u64> = 100..=10_000_000;

/// The options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) store: Option<String>,
    pub(crate) orders: u64,
    pub(crate) ways: Vec<Way>,
    pub(crate) kill_every: Option<Duration>,
}

impl Options {
    /// Returns `None` if help was asked for.
    pub(crate) fn parse(arguments: &[String]) -> Outcome<Option<Self>> {
        let mut options = Self { store: None, orders: 100_000, ways: Vec::new(), kill_every: None };
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            if matches!(option.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value =
                || arguments.next().ok_or_else(|| format!("{option} needs a value: see --help"));
            match option.as_str() {
                "--kill-every" => {
                    options.kill_every = Some(leasehold::time::parse_duration(value()?)?);
                }
                "--orders" => {
                    let text = value()?;
                    let orders = text.parse().ok().filter(|orders| ORDERS.contains(orders));
                    options.orders =
                        orders.ok_or_else(|| format!("--orders {text}: give 100 to 10000000"))?;
                }
                "--store" => options.store = Some(value()?.clone()),
                "--way" => options.ways.push(Way::parse(value()?)?),
                other => return Err(format!("unknown option {other}: see --help").into()),
            }
        }
        if options.ways.is_empty() {
            options.ways = Way::ALL.to_vec();
        }
        Ok(Some(options))
    }
}
