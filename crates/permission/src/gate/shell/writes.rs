//! Lists the files that a simple command visibly changes. Deny rules use this list. Therefore the
//! list may contain too many files, but never too few.

use super::shell_word::ShellWord;

/// A file or folder that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written<'a> {
    /// The command creates the file or folder, or changes something in it.
    Into(&'a ShellWord),
    /// The command moves or removes the file or folder with everything below it, or changes its
    /// permissions.
    Whole(&'a ShellWord),
}

/// Returns the files that a command changes. Returns an empty list for a command whose name this
/// function does not know.
pub(crate) fn written(words: &[ShellWord]) -> Vec<Written<'_>> {
    let Some((name, args)) = words.split_first() else { return Vec::new() };
    let name = name.exact().unwrap_or_default();
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    let plain = || args.iter().filter(|word| !word.text.starts_with('-'));
    match name {
        "tee" | "touch" | "mkdir" | "truncate" | "mkfifo" | "mknod" | "patch" | "split"
        | "csplit" => plain().map(Written::Into).collect(),
        "rm" | "rmdir" | "unlink" | "shred" | "chmod" | "chown" | "chgrp" | "chattr"
        | "setfacl" | "mount" | "umount" => plain().map(Written::Whole).collect(),
        "mv" | "rename" => {
            let last = plain().next_back().map(Written::Into);
            let sources = plain().take(plain().count().saturating_sub(1)).map(Written::Whole);
            let named = after_flag(args, &["-t", "--target-directory"]).map(Written::Into);
            // If the option `-t` names the target folder, the last word is a source too.
            let also = plain().next_back().filter(|_| named.is_some()).map(Written::Whole);
            sources.chain(last).chain(named).chain(also).collect()
        }
        "ln" | "link" => plain().map(Written::Into).collect(),
        "cp" | "install" | "rsync" | "scp" => {
            let named = after_flag(args, &["-t", "--target-directory"]);
            named.or_else(|| plain().next_back()).map(Written::Into).into_iter().collect()
        }
        "dd" => {
            args.iter().filter(|word| word.text.starts_with("of=")).map(Written::Into).collect()
        }
        "sed" | "perl" | "ruby" if args.iter().any(edits_in_place) => {
            plain().map(Written::Into).collect()
        }
        "find" if args.iter().any(|word| word.exact().is_some_and(is_action)) => {
            let starts = args.iter().take_while(|word| !word.text.starts_with(['-', '(', '!']));
            starts.map(Written::Into).collect()
        }
        "curl" | "sort" => {
            after_flag(args, &["-o", "--output"]).map(Written::Into).into_iter().collect()
        }
        "wget" => after_flag(args, &["-O", "--output-document", "-P", "--directory-prefix"])
            .map(Written::Into)
            .into_iter()
            .collect(),
        "tar" | "unzip" => {
            after_flag(args, &["-C", "--directory", "-d"]).map(Written::Into).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

impl<'a> Written<'a> {
    /// Returns the word that names the file or folder.
    pub(crate) fn word(self) -> &'a ShellWord {
        match self {
            Self::Into(word) | Self::Whole(word) => word,
        }
    }
}

fn edits_in_place(word: &ShellWord) -> bool {
    word.text.starts_with("--in-place")
        || word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('i')
}

fn is_action(text: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls"].iter().any(|action| text.starts_with(action))
}

/// Returns the word after one of the flags. If the value is joined to the flag with `=`, returns
/// the whole word.
fn after_flag<'a>(args: &'a [ShellWord], flags: &[&str]) -> Option<&'a ShellWord> {
    let at = args.iter().position(|word| {
        let name = word.text.split_once('=').map_or(word.text.as_str(), |(name, _)| name);
        flags.contains(&name)
    })?;
    let flag = args.get(at)?;
    if flag.text.contains('=') { Some(flag) } else { args.get(at + 1) }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    #[test]
    fn what_is_written_is_told_from_what_is_read() {
        let seen = |command: &str| {
            let script = Script::parse(command);
            let words = &script.parts.last().unwrap().words;
            let tell = |it: &Written<'_>| match it {
                Written::Into(word) => format!("into {}", word.text),
                Written::Whole(word) => format!("whole {}", word.text),
            };
            written(words).iter().map(tell).collect::<Vec<_>>().join(", ")
        };
        for (command, expected) in [
            ("cp a b c", "into c"),
            ("cp -t d a b", "into d"),
            ("cp --target-directory=d a", "into --target-directory=d"),
            ("mv a b", "whole a, into b"),
            ("rm -rf a b", "whole a, whole b"),
            ("/bin/rm a", "whole a"),
            ("tee -a x", "into x"),
            ("ln -s a b", "into a, into b"),
            ("dd if=a of=b", "into of=b"),
            ("sed -i s/a/b/ x", "into s/a/b/, into x"),
            ("sed s/a/b/ x", ""),
            ("find a -name b -delete", "into a"),
            ("find a -name b", ""),
            ("curl -o x http://y", "into x"),
            ("cat a", ""),
            ("grep -r a b", ""),
        ] {
            assert_eq!(seen(command), expected, "{command}");
        }
    }
}
