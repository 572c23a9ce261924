//! A strict reader of the text format of Prometheus, version 0.0.4. It panics at everything that
//! the format does not allow.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a series, by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The metrics of a scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    metrics: BTreeMap<String, Metric>,
}

#[derive(Debug, Default)]
struct Metric {
    kind: String,
    /// The samples by name and labels. The name of a sample of a histogram has an ending.
    samples: BTreeMap<(String, Labels), f64>,
}

impl Scrape {
    #[track_caller]
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut scrape = Self::default();
        let mut current = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect(line);
                assert!(is_name(name) && !help.is_empty(), "{line}");
                let kind = lines.next().unwrap();
                let kind = kind.strip_prefix(&format!("# TYPE {name} ")).expect(kind);
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                let metric = Metric { kind: kind.to_owned(), ..Metric::default() };
                let before = scrape.metrics.insert(name.to_owned(), metric);
                assert!(before.is_none(), "{name} comes twice");
                name.clone_into(&mut current);
                continue;
            }
            let (name, labels, value) = sample(line);
            let metric = scrape.metrics.get_mut(&current).expect(line);
            let ending = name.strip_prefix(&current).unwrap_or_else(|| panic!("{line}"));
            let endings: &[&str] = match metric.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(endings.contains(&ending), "{line}");
            assert!(value >= 0.0, "{line}");
            let before = metric.samples.insert((name, labels), value);
            assert!(before.is_none(), "this series comes twice: {line}");
        }
        scrape.metrics.iter().for_each(|(name, metric)| metric.check_histogram(name));
        scrape
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.metrics.keys().cloned().collect()
    }

    /// Returns the value of the series with exactly these labels.
    #[track_caller]
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let series = (name.to_owned(), wanted.collect());
        let found = self.metrics.values().find_map(|metric| metric.samples.get(&series));
        *found.unwrap_or_else(|| panic!("no {series:?} in {:#?}", self.metrics.get(name)))
    }

    /// Returns the labels of all series of a metric.
    #[track_caller]
    pub(crate) fn series(&self, name: &str) -> Vec<&Labels> {
        self.metrics[name].samples.keys().map(|(_, labels)| labels).collect()
    }
}

impl Metric {
    /// Checks that the buckets grow, and that the last one has all requests.
    fn check_histogram(&self, name: &str) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for ((sample, labels), count) in &self.samples {
            let mut labels = labels.clone();
            if *sample == format!("{name}_bucket") {
                let most = labels.remove("le").unwrap();
                buckets.entry(labels).or_default().push((number(&most), *count));
            }
        }
        for (labels, mut all) in buckets {
            all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            assert!(all.windows(2).all(|two| two[0].1 <= two[1].1), "{name} {labels:?} {all:?}");
            let (most, count) = *all.last().unwrap();
            assert_eq!(most, f64::INFINITY);
            assert_eq!(self.samples[&(format!("{name}_count"), labels.clone())], count);
            assert!(self.samples.contains_key(&(format!("{name}_sum"), labels)), "{name}");
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        text => text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")),
    }
}

/// Reads the line of a sample: its name, labels and value.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, line),
        None => (Labels::new(), rest),
    };
    let value = rest.strip_prefix(' ').expect(line);
    (name.to_owned(), labels, number(value))
}

/// Reads labels up to the closing brace. Returns the rest of the line too.
fn labels<'a>(mut rest: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect(line);
        assert!(is_name(name), "{line}");
        let (value, after) = quoted(after, line);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return (labels, after.strip_prefix('}').expect(line)),
        }
    }
}

/// Reads an escaped value up to its closing quote. Returns the rest of the line too.
fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().expect(line).1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                other => panic!("\\{other} is no escape: {line}"),
            }),
            c => value.push(c),
        }
    }
    panic!("a value has no end: {line}");
}
