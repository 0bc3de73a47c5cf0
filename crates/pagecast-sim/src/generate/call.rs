//! A workload as text: `name(parameter=value,...)`, and what its parameters came to.

/// No workload makes more requests than this: its programs take 16 bytes of memory a step.
pub(crate) const MAX_REQUESTS: u64 = 1 << 27;

/// The text, taken apart. A generator asks for each parameter that it has; what nobody asked for is
/// unknown.
pub(crate) struct Call {
    name: String,
    given: Vec<(String, String)>,
    resolved: Vec<(&'static str, String)>,
}

impl Call {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, arguments) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                (name.trim(), rest.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end in `)`"))?)
            }
        };
        let mut given = Vec::new();
        for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            let (key, value) =
                argument.split_once('=').ok_or_else(|| format!("`{argument}` in `{text}` is not parameter=value"))?;
            if given.iter().any(|(known, _)| known == key.trim()) {
                return Err(format!("`{}` is given twice in `{text}`", key.trim()));
            }
            given.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Self { name: name.to_owned(), given, resolved: Vec::new() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A whole number of `low` to `high`.
    pub(crate) fn count(&mut self, name: &'static str, default: u32, low: u32, high: u32) -> Result<u32, String> {
        let expected = format!("a whole number from {low} to {high}");
        let parse = |text: &str| text.parse().ok().filter(|n| (low..=high).contains(n));
        self.value(name, default, parse, &expected, |n| n.to_string())
    }

    /// A number of `low` to `high`; `5%` is 0.05.
    pub(crate) fn number(&mut self, name: &'static str, default: f64, low: f64, high: f64) -> Result<f64, String> {
        let expected = format!("a number from {low} to {high}");
        let parse = |text: &str| {
            let number: f64 = match text.strip_suffix('%') {
                Some(percent) => percent.parse::<f64>().ok()? / 100.0,
                None => text.parse().ok()?,
            };
            (low..=high).contains(&number).then_some(number)
        };
        self.value(name, default, parse, &expected, |n| n.to_string())
    }

    /// What `parse` makes of the parameter; `expected` says what it may be, `show` writes it back.
    pub(crate) fn value<T>(
        &mut self,
        name: &'static str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
        expected: &str,
        show: impl Fn(&T) -> String,
    ) -> Result<T, String> {
        let value = match self.given.iter().position(|(given, _)| given == name) {
            None => default,
            Some(at) => {
                let (_, text) = self.given.swap_remove(at);
                parse(&text).ok_or_else(|| format!("workload `{}`: `{name}={text}` must be {expected}", self.name))?
            }
        };
        self.resolved.push((name, show(&value)));
        Ok(value)
    }

    /// Refuses a workload of more requests than memory should hold.
    pub(crate) fn bounded(&self, requests: u64) -> Result<(), String> {
        if requests <= MAX_REQUESTS {
            return Ok(());
        }
        Err(format!("workload `{}` would make {requests} requests; at most {MAX_REQUESTS}: ask for less", self.name))
    }

    /// The text with all parameters, once the generator has asked for all that it has.
    pub(crate) fn finish(self) -> Result<String, String> {
        let known: Vec<_> = self.resolved.iter().map(|(name, _)| *name).collect();
        if let Some((name, _)) = self.given.first() {
            return Err(format!("workload `{}` has no parameter `{name}`; it has {}", self.name, known.join(", ")));
        }
        let values: Vec<_> = self.resolved.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(format!("{}({})", self.name, values.join(",")))
    }
}
