//! The server side of the pane protocol. It offers a pane backend as a pane program.

use std::io::{self, BufRead, Write};

use serde::Serialize;
use serde_json::Value;

use super::wire::{
    Alive, Capability, Hello, LINE_BYTES, Listed, Op, PROTOCOL, Refusal, Screen, Started,
    TaggedPane, answer_line, code,
};
use crate::{PaneTag, Panes};

/// Answers the requests in `input` until `input` ends. Each request is answered before the next one
/// is read. `version` is the version of the terminal. The panes stay open when this function
/// returns.
///
/// Reading `input` blocks the thread, so this function needs its own thread.
///
/// # Errors
/// The error of the operating system if reading a request or writing an answer fails.
pub async fn serve(
    panes: &dyn Panes,
    version: &str,
    capabilities: &[Capability],
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
) -> io::Result<()> {
    let hello = Hello {
        protocol: PROTOCOL,
        name: panes.backend_type().to_owned(),
        version: version.to_owned(),
        capabilities: capabilities.to_vec(),
    };
    while let Some(line) = next_line(input)? {
        let (id, op) = match line {
            Line::Whole(line) => request(&line),
            Line::TooLong => (None, Err(Refusal::new(code::BAD_REQUEST, "the line is too long"))),
        };
        let answer = match op {
            Ok(op) => answer(panes, &hello, op).await,
            Err(refusal) => Err(refusal),
        };
        output.write_all(answer_line(id, answer).as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// One line of the input.
enum Line {
    Whole(Vec<u8>),
    /// The line was too long. All of it was skipped.
    TooLong,
}

fn next_line(input: &mut (dyn BufRead + Send)) -> io::Result<Option<Line>> {
    let bound = u64::try_from(LINE_BYTES).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let count = io::Read::take(&mut *input, bound).read_until(b'\n', &mut line)?;
        let is_whole = line.last() == Some(&b'\n');
        match (count, is_whole, is_too_long) {
            (0, _, false) if line.is_empty() => return Ok(None),
            (0, _, false) | (_, true, false) => return Ok(Some(Line::Whole(line))),
            (0, _, true) | (_, true, true) => return Ok(Some(Line::TooLong)),
            (_, false, _) => {
                // Do not store the rest of a line that is too long, so that memory use stays
                // limited.
                is_too_long = is_too_long || line.len() >= LINE_BYTES;
                if is_too_long {
                    line.clear();
                }
            }
        }
    }
}

/// Parses the id and the operation of a request. The id is `None` if the line contains no valid id.
fn request(line: &[u8]) -> (Option<u64>, Result<Op, Refusal>) {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(e) => {
            return (
                None,
                Err(Refusal::new(code::BAD_REQUEST, format!("the line is no JSON: {e}"))),
            );
        }
    };
    let Some(id) = value.get("id").and_then(Value::as_u64) else {
        return (
            None,
            Err(Refusal::new(code::BAD_REQUEST, "the request has no id, a whole number")),
        );
    };
    let op = serde_json::from_value(value).map_err(|error| {
        let said = error.to_string();
        // If the operation is unknown, serde says this only in its error text. So search that text
        // to choose the error code.
        let code =
            if said.starts_with("unknown variant") { code::UNKNOWN_OP } else { code::BAD_REQUEST };
        Refusal::new(code, said)
    });
    (Some(id), op)
}

async fn answer(panes: &dyn Panes, hello: &Hello, op: Op) -> Result<Value, Refusal> {
    if op.needs().is_some_and(|needed| !hello.capabilities.contains(&needed)) {
        return Err(Refusal::new(
            code::UNSUPPORTED,
            format!("{} cannot {}", hello.name, op.name()),
        ));
    }
    match op {
        Op::Hello { .. } => said(hello),
        Op::Start(start) => said(&Started::from(panes.start(&start.pane()?).await?)),
        Op::Alive { pane } => said(&Alive::from(panes.state(&pane).await?)),
        Op::Screen { pane } => said(&Screen { text: panes.screen(&pane).await? }),
        Op::Show { pane } => {
            panes.show(&pane).await?;
            said(&Value::Object(serde_json::Map::new()))
        }
        Op::Hide { pane } => {
            panes.hide(&pane).await?;
            said(&Value::Object(serde_json::Map::new()))
        }
        Op::List { tag } => {
            let found = panes.tagged(&tag.parse::<PaneTag>()?).await?;
            let panes = found
                .into_iter()
                .map(|(pane, tag)| TaggedPane { pane, tag: tag.to_string() })
                .collect();
            said(&Listed { panes })
        }
        Op::Stop { pane, tag } => {
            panes.stop(&pane, &tag.parse()?).await?;
            said(&Value::Object(serde_json::Map::new()))
        }
    }
}

fn said<T: Serialize>(answer: &T) -> Result<Value, Refusal> {
    serde_json::to_value(answer).map_err(|e| Refusal::new(code::FAILED, e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_passed_over_and_the_next_is_read() {
        let mut bytes = vec![b'x'; LINE_BYTES + 7];
        bytes.extend(b"\nnext\nlast");
        let mut input = io::Cursor::new(bytes);
        assert!(matches!(next_line(&mut input).unwrap(), Some(Line::TooLong)));
        assert!(
            matches!(next_line(&mut input).unwrap(), Some(Line::Whole(line)) if line == b"next\n")
        );
        assert!(
            matches!(next_line(&mut input).unwrap(), Some(Line::Whole(line)) if line == b"last")
        );
        assert!(next_line(&mut input).unwrap().is_none());
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        let code_of = |line: &str| request(line.as_bytes()).1.map_err(|refusal| refusal.code);
        for line in ["", "x", "7", "[]", "{}", r#"{"op":"alive"}"#, r#"{"id":-1,"op":"hello"}"#] {
            assert_eq!(code_of(line), Err(code::BAD_REQUEST.to_owned()), "{line}");
        }
        for line in [
            r#"{"id":1}"#,
            r#"{"id":1,"op":7}"#,
            r#"{"id":1,"op":"alive"}"#,
            r#"{"id":1,"op":"stop","pane":7}"#,
        ] {
            assert_eq!(code_of(line), Err(code::BAD_REQUEST.to_owned()), "{line}");
        }
        assert_eq!(code_of(r#"{"id":1,"op":"dance"}"#), Err(code::UNKNOWN_OP.to_owned()));
        assert_eq!(
            code_of(r#"{"id":1,"op":"alive","pane":"%1","more":1}"#),
            Ok(Op::Alive { pane: crate::PaneId("%1".into()) })
        );
    }
}
