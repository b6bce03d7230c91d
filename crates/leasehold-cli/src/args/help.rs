//! The text after the options in `--help` and the manual pages: examples, exit codes, notes.

pub(super) const EXAMPLES: &str = "\
Examples:
  leasehold run nightly-report -n -- ./report.sh      skip it if another machine is on it
  leasehold run deploy --wait 10m -- ./deploy.sh      wait at most ten minutes
  leasehold run gpu --permits 1/4 -- ./train.py       at most four at a time
  leasehold ls                                        what is held, by whom, and who waits

Machines that exclude each other need the same store:
  export LEASEHOLD_STORE=redis://10.0.0.5/0
Without a store, locks are kept in a file and hold for this user on this machine only (see
`leasehold where`). `leasehold man store | man -l -` describes URLs, their options, passwords in the
environment and the rights of users.";

pub(super) const RUN_EXAMPLES: &str = "\
A DURATION is a number with its unit, as in 500ms, 30s, 1.5h or 1h30m. A bare number is seconds.

Examples:
  leasehold run backup -- tar czf /backup/home.tgz /home
  leasehold run nightly-report -n -E 0 --once-per 20h --max-hold 1h -- ./report.sh
                                                                once, from ten crontabs
  leasehold run account/7 account/3 -- ./transfer.sh            both or none
  leasehold run catalogue --shared -- ./read-it.sh              readers together, a writer alone
  leasehold run migrate --ttl 10s -v -- sh -c 'echo \"token $LEASEHOLD_TOKEN\"'

Exit code: that of CMD; if signal n ends CMD, leasehold ends by the same signal, which a shell shows
as 128 + n; 75 busy or timed out (see -E); 76 the lease was lost; 69 trouble with the store; 126 CMD
cannot be executed; 127 CMD is not found; 2 usage.

CMD gets the variables LEASEHOLD_NAME, LEASEHOLD_TOKEN and LEASEHOLD_HOLDER. With several names,
each variable has all values in the order given, separated by spaces. Under another `leasehold run`,
CMD also gets LEASEHOLD_OUTER_HOLDERS, the holders of the outer runs. leasehold removes its
passwords from CMD's environment, also the password in the URL of LEASEHOLD_STORE. If CMD runs a
`leasehold` that needs the password, give --keep-password, or name in LEASEHOLD_PASSWORD_FILE a file
that both can read.

If CMD calls `leasehold run` for a lock that it already holds, that call fails at once, with exit
code 75. The lease covers CMD and all processes that it starts. Processes that CMD leaves behind
have --kill-after (5s) to finish, and are then ended before the lock is released. To keep such a
process, start it with `setsid`. A process of another user cannot be ended: write
`sudo leasehold run …` instead of `… -- sudo CMD`.

After --max-hold, leasehold sends TERM to CMD, and KILL after --kill-after. The lease lasts until
CMD has ended. A TERM to leasehold has the same effect. leasehold passes other signals on to CMD and
does nothing more. CMD handles signals as the caller did, except PIPE, which is set to its default.

Lines on stderr have no time: the journal and cron's log add the time, and so does `2> >(ts)`.

If a text is too long for a NAME, use this hash of it, which equals that of LockName::hashed:
  \"${text:0:64}~$(printf %s \"$text\" | sha256sum | cut -c1-64)\"";

pub(super) const HOLD_EXAMPLES: &str = "\
A DURATION is a number with its unit, as in 500ms, 30s, 1.5h or 1h30m. A bare number is seconds.

With several names, the line of JSON has the first name and its token, and `names` has all names.

Examples:
  leasehold hold deploy --pid $$ &          # in the background, until this shell ends
  coproc leasehold hold deploy              # in bash: lets go when the script ends
  read -r held <&\"${COPROC[0]}\"             # {\"name\":\"deploy\",\"token\":\"…\",…}

Exit code: 0 released as asked; 75 busy or timed out (see -E); 76 the lease was lost; 69 trouble
with the store; 2 usage.";

pub(super) const TAKE_EXAMPLES: &str = "\
A DURATION is a number with its unit, as in 500ms, 30s, 1.5h or 1h30m. A bare number is seconds.

Examples:
  handle=$(leasehold take staging --for 2h) || exit       # a step of a build
  leasehold give \"$handle\"                               # a later one
  leasehold take deploy --for 3d --label 'freeze' >freeze
  leasehold take cache db --pid $$                        # until this shell ends

The handle is one word. It names the machine, the user, the store without its password, the client,
and each name with its token. The handle has no secret, and leasehold opens no path that it names.
The label shows others who has taken the lock, and until when. A signal also ends the holder
process, which then writes a line to --log. If the process is killed, nothing renews the lease: on
the file store the lease ends at once, elsewhere --ttl later. The process is killed when its
container ends. systemd kills it when the unit that started it ends, and after each ExecStartPre.

Exit code: 0 it is held; 75 busy or timed out (see -E); 69 trouble with the store; 2 usage.";

pub(super) const GIVE_EXAMPLES: &str = "\
`give` asks the process that renews the lease, if that process runs as this user on this machine.
Otherwise `give` ends the lease at the store. This is the configured store, if the lease was taken
there, or else the server that the handle names. leasehold sends that server no password: if the
server needs one, name it with --store.

Exit code: 0 released; 76 the lease had ended before: it was given back; or it was lost, and others
may have held it meanwhile; or its process has ended, and the store says no more; 69 trouble with
the store; 2 no handle, or a handle of another store.";

pub(super) const RENEW_EXAMPLES: &str = "\
Example:
  leasehold renew \"$handle\" --for 30m

Exit code: 0 done; 76 the lease has ended: it was given back, is over or was lost; 69 trouble with
the store; 2 no handle, or its process cannot be asked from here: run `renew` as the user who took
the lease, on the same machine.";

pub(super) const SCHEMA_EXAMPLES: &str = "\
Examples:
  leasehold schema -s postgres://owner@db/shop --holder app --fencer app | less
  leasehold schema -s postgres://owner@db/shop --holder app --fencer app --install

The roles must exist. Tables and functions that exist stay as they are, so a role may be added
later.

Exit code: 0 printed or installed; 69 trouble with the store; 2 usage.";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  leasehold doctor                                  the store that `leasehold where` prints
  leasehold doctor -s redis://db:6379/0 --strict    for a deployment: warnings count, too

Run it on a machine that uses the locks, as the store user of these locks. A user that also has
+info and +config|get sees more. It takes no lock and changes nothing.

Exit code: 0 nothing breaks a promise; 1 something does (with --strict: does or may); 69 the store
cannot be reached; 2 usage.";

pub(super) const LS_EXAMPLES: &str = "\
Examples:
  leasehold ls invoices/                        names that begin with invoices/
  leasehold ls --held-longer-than 10m           what may have been forgotten
  leasehold ls --json | jq -c '.[]'             a line of JSON for each lock

MODE is w for an exclusive holder, r for a reader, r×3 for three readers, and 3/5 for three of five
permits. SINCE is when the oldest hold began, by the clock and
time zone of this terminal; in JSON it is UTC. A narrow terminal leaves columns out; `show` prints
everything about one lock.

The list is sorted by name. `leasehold top` keeps it up to date.

Exit code: 0 listed; 69 trouble with the store; 2 usage.";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  leasehold serve                                        http://127.0.0.1:9740/
  leasehold serve --allow-revoke --token-file token      with a button that revokes leases
  leasehold serve --listen 0.0.0.0:9740 --token-file token --tls-cert c.pem --tls-key k.pem

  curl -s localhost:9740/api/v1/locks                    what `ls --json` prints
  curl -s localhost:9740/metrics                         OpenMetrics, for Prometheus

`serve` looks at no more than 2000 keys a second, whatever the size of the store. Each row says
how old it is.

Exit code: 0 ended by a signal; 69 cannot listen, or trouble with the store that does not pass by
itself; 2 usage.";

pub(super) const ELECT_EXAMPLES: &str = "\
Examples:
  leasehold elect scheduler --value $(hostname):8080 -- ./scheduler
  leasehold elect scheduler --value here        # leads until stdin ends or a signal comes
  leasehold elect scheduler --show              # the leader's value; exit code 1 if nobody leads
  leasehold elect scheduler --listen --json     # one line of JSON per change

A line of `--listen --json` is {\"name\":…,\"leader\":…}, with `leader` null if nobody leads.
{\"change\":\"away\",\"at\":…,\"why\":…} says that the store does not answer. Once it answers, a
line with `back` follows in the same form, and then a line with the leader.

The leader's exit code is that of CMD, as in `run`; 76 the leadership was lost, and CMD was ended
before somebody else could lead. Let a supervisor start the command again, to become a candidate
again.";
