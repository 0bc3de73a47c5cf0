//! Standard output. Files and pipes get all of a result. A terminal gets the first rows, and a
//! pager where these are more than it has lines.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::output::ResultFile;

/// Rows that a terminal gets unless told otherwise.
const ROWS: usize = 1000;

/// How results are shown.
#[derive(Debug)]
pub(super) struct Screen {
    /// None for a file or a pipe.
    terminal: Option<console::Term>,
    /// The most rows that a terminal gets of a result.
    limit: Option<usize>,
    /// Whether what is longer than the terminal goes through a pager.
    pub(super) pages: bool,
}

impl Screen {
    /// Standard output; `limit` is the user's word on rows, 0 for all.
    pub(super) fn open(limit: Option<usize>) -> Self {
        let terminal = io::stdout().is_terminal().then(console::Term::stdout);
        let mut screen = Self { terminal, limit: None, pages: true };
        screen.set_limit(limit.unwrap_or(ROWS));
        screen
    }

    pub(super) fn set_limit(&mut self, rows: usize) {
        self.limit = (rows > 0 && self.terminal.is_some()).then_some(rows);
    }

    /// The most rows of a result that are shown.
    pub(super) fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Where one result is written.
    pub(super) fn sink(&self) -> Sink<'static> {
        let stdout = BufWriter::with_capacity(1 << 16, io::stdout());
        let paged = self.terminal.as_ref().filter(|_| self.pages);
        match paged.and_then(console::Term::size_checked) {
            // A line is left for the figures and one for the prompt.
            Some((lines, _)) => {
                Sink::Held { text: Vec::new(), lines: 0, room: usize::from(lines).saturating_sub(2), stdout }
            }
            None => Sink::Straight(stdout),
        }
    }
}

/// Takes the text of one result.
pub(super) enum Sink<'f> {
    Straight(BufWriter<Stdout>),
    /// Held until it ends, and fits the terminal, or does not.
    Held {
        text: Vec<u8>,
        lines: usize,
        room: usize,
        stdout: BufWriter<Stdout>,
    },
    Paged(Pager),
    /// The user's file, which may take other results after this one.
    File(&'f mut BufWriter<ResultFile>),
}

impl Sink<'_> {
    /// Shows all that was written, and waits until the user has left the pager.
    pub(super) fn close(self) -> io::Result<()> {
        match self {
            Self::Straight(mut stdout) => stdout.flush(),
            Self::Held { text, mut stdout, .. } => {
                stdout.write_all(&text)?;
                stdout.flush()
            }
            Self::Paged(pager) => pager.wait(),
            Self::File(file) => file.flush(),
        }
    }

    /// Whether `error` says no more than that the user left the pager before the end.
    pub(super) fn is_left(&self, error: &io::Error) -> bool {
        matches!(self, Self::Paged(_)) && error.kind() == io::ErrorKind::BrokenPipe
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Held { text, lines, room, .. } = self {
            text.extend_from_slice(bytes);
            *lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
            if lines > room {
                let text = std::mem::take(text);
                *self = Pager::start()
                    .map_or_else(|| Self::Straight(BufWriter::with_capacity(1 << 16, io::stdout())), Self::Paged);
                self.write_all(&text)?;
            }
            return Ok(bytes.len());
        }
        match self {
            Self::Straight(stdout) => stdout.write(bytes),
            Self::Paged(pager) => pager.input.write(bytes),
            Self::File(file) => file.write(bytes),
            Self::Held { .. } => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Straight(stdout) => stdout.flush(),
            Self::Paged(pager) => pager.input.flush(),
            Self::File(file) => file.flush(),
            Self::Held { .. } => Ok(()),
        }
    }
}

/// The user's pager.
pub(super) struct Pager {
    process: Child,
    input: BufWriter<ChildStdin>,
}

impl Pager {
    /// `$PAGER`, else `less`; none if the variable is empty or there is no such program.
    fn start() -> Option<Self> {
        let mut command = match std::env::var_os("PAGER") {
            Some(none) if none.is_empty() => return None,
            Some(pager) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(pager);
                shell
            }
            None => Command::new("less"),
        };
        if std::env::var_os("LESS").is_none() {
            // Ends by itself where all fits, cuts long lines, and leaves what it showed on the
            // screen.
            command.env("LESS", "FSX");
        }
        let mut process = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = BufWriter::with_capacity(1 << 16, process.stdin.take()?);
        Some(Self { process, input })
    }

    fn wait(self) -> io::Result<()> {
        let Self { mut process, mut input } = self;
        let flushed = input.flush();
        // Its end of the pipe tells the pager that this is all.
        drop(input);
        process.wait()?;
        match flushed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}
