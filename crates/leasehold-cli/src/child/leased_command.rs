//! One command under one lease, from the grant to the release.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold::error::StoreErrorKind;
use leasehold::time::{Clock as _, show_duration};
use leasehold::{Error, Guard, LockName, LossReason, Lost};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};

use super::guardian::idle::IdleGuardian;
use super::guardian::link::Link;
use super::guardian::protocol::{Begin, CommandEnd, EndReason, Order, Report};
use super::guardian::timing::{CLOCK, sleep_until};
use super::guardian::watch::{Advice, Watch};
use crate::args::{EndArgs, Limit, OnLost};
use crate::connection::{Connection, reentry};
use crate::report::{Failure, LOST, NOT_EXECUTABLE, Outcome};
use crate::secrets;
use crate::signals::{Death, can_be_continued, is_end, numbered, signal_name};
use crate::terminal::TtyHandover;

/// How a command under a lease is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSpec<'a> {
    pub(crate) end: &'a EndArgs,
    pub(crate) kill_after: Duration,
    pub(crate) max_hold: Option<&'a Limit>,
    /// A file that is removed when the lease is lost.
    pub(crate) ready_file: Option<&'a Path>,
}

/// The command, its guardian, and the lease they run under.
#[derive(Debug)]
pub(crate) struct LeasedCommand<'a> {
    /// The names of the locks, as one text.
    name: String,
    spec: CommandSpec<'a>,
    connection: &'a mut Connection,
    /// When the lease was granted, or a moment before.
    since: Instant,
    guard: Guard,
    lost: Lost,
    link: Link,
    watch: Watch,
    terminal: TtyHandover,
    /// The signal that was last passed on to the command.
    passed_on: Option<Signal>,
    loss: Option<LossReason>,
    ending: Option<EndReason>,
    how: Option<CommandEnd>,
}

impl<'a> LeasedCommand<'a> {
    /// Runs the command to its end, and releases the lease.
    pub(crate) async fn run(
        spec: CommandSpec<'a>,
        guardian: IdleGuardian<'_>,
        connection: &'a mut Connection,
        guard: Guard,
    ) -> Outcome {
        let since = Instant::now();
        let verbosity = connection.verbosity;
        let terminal = TtyHandover::of_this_process();
        let valid_until = valid_until(&guard);
        let (names, tokens): (Vec<_>, Vec<_>) =
            guard.tokens().map(|(name, token)| (name.to_string(), token.to_string())).unzip();
        let name = names.join(" ");
        let mut variables = vec![
            ("LEASEHOLD_NAME".to_owned(), name.clone()),
            ("LEASEHOLD_TOKEN".to_owned(), tokens.join(" ")),
        ];
        variables.extend(reentry::variables(&guard));
        if spec.end.keep_password {
            variables.extend(secrets::variables());
        }
        let begin = Begin {
            until: valid_until.since_origin(),
            kill_after: spec.kill_after,
            max_hold: spec.max_hold.map(|limit| limit.span),
            on_lost: spec.end.on_lost,
            signal: spec.end.signal.as_raw(),
            is_nested: reentry::is_nested(),
            lend_terminal: terminal.is_lent_at_once(),
            ready_file: spec.ready_file.map(Path::to_path_buf),
            variables,
        };
        let link = guardian.begin(connection.client.lifeline(), &begin).await?;
        let mut running = Self {
            name,
            spec,
            connection,
            since,
            lost: guard.lost(),
            guard,
            link,
            watch: Watch::new(spec.end.on_lost, spec.kill_after, valid_until),
            terminal,
            passed_on: None,
            loss: None,
            ending: None,
            how: None,
        };
        running.supervise().await;
        let name = running.name.clone();
        let outcome = running.end().await;
        verbosity.detail(format_args!("{name}: held for {}", show_duration(since.elapsed())));
        outcome
    }

    /// Supervises until the guardian has ended, or was replaced. Every round checks the loss first:
    /// a leasehold that was stopped for longer than its lease reports the loss before it does
    /// anything else.
    async fn supervise(&mut self) {
        loop {
            tokio::select! {
                biased;
                Some(reason) = &mut self.lost, if self.loss.is_none() => {
                    self.note_loss(reason).await;
                }
                report = self.link.report() => match report {
                    Some(report) => self.note(report).await,
                    None => return,
                },
                () = self.connection.events.renewed(), if self.loss.is_none() => {
                    let valid_until = valid_until(&self.guard);
                    self.watch.renewed(valid_until);
                    // A guardian that was stopped would not see the end of the command, and so the
                    // lease would be renewed for ever.
                    self.link.wake();
                    self.link.order(Order::Deadline { until: valid_until.since_origin() }).await;
                    if !self.connection.verbosity.verbose
                        && self.since.elapsed() > self.guard.validity()
                        && let Some(text) = self.connection.events.take_warning()
                    {
                        self.remark(format_args!("warning: {text}"));
                    }
                }
                signal = self.connection.signals.next() => self.pass_on(signal).await,
                () = sleep_until(self.watch.due()) => match self.watch.check(CLOCK.now()) {
                    Advice::Wake => self.link.wake(),
                    advice => return self.replace_guardian(advice).await,
                },
            }
        }
    }

    /// Ends the command in place of a guardian that is stopped or hangs.
    async fn replace_guardian(&mut self, advice: Advice) {
        if advice == Advice::Replace {
            self.note_ending(EndReason::Overdue);
        }
        self.link.replace_guardian(&self.name).await;
        self.how = Some(CommandEnd::Signaled(Signal::KILL.as_raw()));
    }

    async fn note_loss(&mut self, reason: LossReason) {
        self.loss = Some(reason);
        let what = match (self.spec.end.on_lost, self.how, self.ending) {
            (_, Some(_), _) => "after its command had ended",
            (_, None, Some(_)) => return, // reported already
            (OnLost::Ignore, None, None) => "the command runs on, and others may run beside it",
            (OnLost::Kill, None, None) => "the command is killed",
            (OnLost::Term, None, None) => "the command is being ended",
        };
        let (token, cause) = (self.guard.token(), self.why_not_renewed(reason));
        self.watch.asked(CLOCK.now());
        self.link.wake();
        self.link.order(Order::Lost).await;
        self.error(format_args!("lost the lease with token {token}: {reason}; {what}{cause}"));
    }

    async fn note(&mut self, report: Report) {
        match report {
            Report::Started { .. } => self.terminal.note_start(self.link.group()),
            Report::Stopped { signal } => self.note_stop(signal).await,
            Report::LeftBehind { wait } => {
                let wait = show_duration(wait);
                self.remark(format_args!("waits up to {wait} for what the command left behind"));
            }
            Report::Ending { why } => {
                self.watch.ending(CLOCK.now());
                self.note_ending(why);
            }
            Report::Remains { process } => {
                self.watch.hopeless();
                process.report(&self.name);
            }
            Report::Ended { how } => self.how = Some(how),
        }
    }

    /// The end of a sentence: the trouble with the store, if the lease ends because of that.
    fn why_not_renewed(&self, reason: LossReason) -> String {
        self.connection.events.why_not_renewed(&names(&self.guard), reason)
    }

    fn error(&self, what: impl Display) {
        self.connection.verbosity.error(format_args!("{}: {what}", self.name));
    }

    fn remark(&self, what: impl Display) {
        self.connection.verbosity.remark(format_args!("{}: {what}", self.name));
    }

    fn note_ending(&mut self, why: EndReason) {
        match why {
            // The user asked for this end, and the lease is not lost.
            EndReason::Asked => return,
            // This was already reported: by the code that noticed the loss, or by the guardian.
            EndReason::Died | EndReason::Lost => {}
            EndReason::LeftBehind => {
                return self.remark(
                    "what the command left behind is being ended (setsid lets a process stay)",
                );
            }
            EndReason::Overdue if self.loss.is_some() => {}
            EndReason::Over | EndReason::Overdue => {
                // The limit is the cause even if the guardian notices it late: no renewal goes
                // beyond the limit.
                let is_over = |limit: &&Limit| self.since.elapsed() >= limit.span;
                let (why, cause) = match self.spec.max_hold.filter(is_over) {
                    Some(limit) => (format!("{limit} is over"), String::new()),
                    None => {
                        let left = show_duration(self.guard.validity());
                        let why = format!("the lease ends in {left} and is not renewed");
                        (why, self.why_not_renewed(LossReason::Expired))
                    }
                };
                self.error(format_args!("{why}: the command is being ended{cause}"));
            }
        }
        self.ending = Some(why);
    }

    /// Handles a stopped command: the user stopped it at the terminal, or it wants to use the
    /// terminal.
    async fn note_stop(&mut self, number: i32) {
        let signal = Signal::from_named_raw(number);
        let wants_terminal = matches!(signal, Some(Signal::TTIN | Signal::TTOU));
        if wants_terminal && self.terminal.lend(self.link.group()) {
            self.link.order(Order::Signal { number: Signal::CONT.as_raw() }).await;
            return;
        }
        let is_for_job = match signal {
            Some(Signal::TSTP) => true,
            // After Ctrl-Z, some programs stop themselves by STOP: top of procps, or leasehold.
            Some(Signal::STOP) => self.terminal.is_lent(),
            _ => wants_terminal,
        };
        if !is_for_job {
            return; // a signal stopped only the command; the lease is kept
        }
        if !wants_terminal && !can_be_continued() {
            // Ctrl-Z stops nothing here: the command goes on, and keeps the terminal.
            self.link.order(Order::Signal { number: Signal::CONT.as_raw() }).await;
            return;
        }
        let left = show_duration(self.guard.validity());
        self.remark(format_args!("stopped: the lease ends in {left} unless continued"));
        let was_lent = self.terminal.take_back();
        // The shell must see that its job has stopped. If the terminal was lent, only the command
        // got the signal, so now our whole group stops, including the script that runs us. If the
        // terminal was not lent, only this process stops.
        let _continued = match was_lent {
            true => kill_current_process_group(Signal::STOP),
            false => kill_process(getpid(), Signal::STOP),
        };
    }

    async fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::CONT && self.terminal.is_lent_at_once() {
            self.terminal.lend(self.link.group());
        }
        self.passed_on = Some(signal);
        self.link.wake();
        self.link.order(Order::Signal { number: signal.as_raw() }).await;
    }

    /// Releases the lease after the guardian and the command have ended, and returns how the
    /// command ended.
    async fn end(mut self) -> Outcome {
        let was_lent = self.terminal.take_back();
        let (name, verbosity) = (self.name.clone(), self.connection.verbosity);
        let how = match self.how {
            Some(how) => how,
            None => self.unsupervised_end().await,
        };
        let own_end = match how {
            CommandEnd::Exited(code) => Ok(code),
            CommandEnd::Signaled(number) => Err(self.end_by_signal(number, was_lent)),
        };
        let ignores = self.spec.end.on_lost == OnLost::Ignore;
        let mut was_lost = self.was_lost();
        let names = names(&self.guard);
        let (guard, has_succeeded) = (self.guard, matches!(own_end, Ok(0)) && !was_lost);
        match if has_succeeded { guard.done().await } else { guard.release().await } {
            Ok(()) => {}
            Err(Error::Lost { .. }) if was_lost => {} // said already
            Err(Error::Lost { reason, token, .. }) => {
                was_lost = true;
                verbosity.error(format_args!(
                    "{name}: the lease with token {token} was lost before the command ended: \
                     {reason}{}",
                    self.connection.events.why_not_renewed(&names, reason)
                ));
            }
            // The keeper tries the release again. The code that closes the connection reports a
            // failure.
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Denied => {}
            // The lease ends by itself, and the command ran alone.
            Err(error) => verbosity.error(format_args!("{name}: could not let go: {error}")),
        }
        // This comes last, because the next holder does not wait for it.
        self.link.bury_guardian();
        let was_ended = self.ending == Some(EndReason::Over) || was_lost && !ignores;
        if !was_ended {
            return own_end;
        }
        if let Some(CommandEnd::Exited(code)) = self.how {
            verbosity.remark(format_args!("{name}: the command's own exit code was {code}"));
        }
        Ok(LOST)
    }

    /// The failure that ends leasehold by the signal that ended the command. It has a message,
    /// except for Ctrl-C, for a closed pipe, and if a message was printed before.
    fn end_by_signal(&self, number: i32, was_lent: bool) -> Failure {
        let signal = numbered(number);
        let is_from_terminal = matches!(signal, Some(Signal::HUP | Signal::INT | Signal::QUIT));
        let is_for_group = was_lent && is_from_terminal && self.passed_on != signal;
        let message = match (signal, self.passed_on) {
            _ if self.how.is_none() => String::new(),
            (Some(Signal::INT | Signal::PIPE), _) => String::new(),
            (Some(Signal::KILL), Some(passed)) if is_end(passed) => format!(
                "the command ignored {} for {}, and was ended by SIGKILL",
                signal_name(passed),
                show_duration(self.spec.kill_after)
            ),
            (Some(signal), _) => format!("the command was ended by {}", signal_name(signal)),
            (None, _) => format!("the command was ended by signal {number}"),
        };
        Failure::by_death(Death { number, is_for_group }, message)
    }

    fn was_lost(&self) -> bool {
        self.loss.is_some() || self.ending.is_some()
    }

    /// How the command ended, if the guardian ended without reporting it. Either the guardian could
    /// not start the command, and has printed why. Or the guardian was killed, and the kernel
    /// killed the command.
    async fn unsupervised_end(&mut self) -> CommandEnd {
        match self.link.outlive_guardian(&self.name).await.ok().and_then(|it| it.code()) {
            Some(code) => CommandEnd::Exited(u8::try_from(code).unwrap_or(NOT_EXECUTABLE)),
            None => {
                if !self.was_lost() {
                    self.error("the guardian of the command was killed, so the command was, too");
                }
                CommandEnd::Signaled(Signal::KILL.as_raw())
            }
        }
    }
}

fn names(guard: &Guard) -> Vec<LockName> {
    guard.tokens().map(|(name, _)| name.clone()).collect()
}

/// Until when the lease can be relied on, by the clock that counts suspended time. The clock is
/// read before the validity, so time that passes in between makes the result earlier, never later.
fn valid_until(guard: &Guard) -> leasehold::time::Instant {
    let now = CLOCK.now();
    now + guard.validity()
}
