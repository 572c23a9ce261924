//! Tests that each tool reads every parameter in its schema. The tests compare the schemas with the
//! input types of the tools.

use std::collections::BTreeSet;

use pitcrew_protocol::TaskStopInput;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::json;

use super::{bash, edit, glob, grep, plain_tools, read, write};

/// A deserializer that reads no values. It only records the field names for which the type asks.
struct Fields<'a>(&'a mut BTreeSet<&'static str>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("only the fields were wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn read_by<T: for<'de> Deserialize<'de>>() -> BTreeSet<&'static str> {
    let mut fields = BTreeSet::new();
    assert!(T::deserialize(Fields(&mut fields)).is_err(), "nothing is read");
    fields
}

#[test]
fn no_plain_tool_offers_a_parameter_that_nothing_reads() {
    for tool in plain_tools() {
        let mut read = match tool.name() {
            "Bash" => read_by::<bash::Input>(),
            "Read" => read_by::<read::Input>(),
            "Write" => read_by::<write::Input>(),
            "Edit" => read_by::<edit::Input>(),
            "Glob" => read_by::<glob::Input>(),
            "Grep" => read_by::<grep::Input>(),
            // For this tool, the crate `protocol` reads the input, one parameter after another.
            "TaskStop" => ["task_id", "shell_id", "other"]
                .into_iter()
                .filter(|name| TaskStopInput::parse(json!({*name: "b"})).is_ok())
                .collect(),
            other => panic!("{other} is compared with nothing"),
        };
        if tool.name() == "Bash" {
            // The tool does not read this parameter. A permission request shows it as the model's
            // own description.
            read.insert("description");
        }
        let schema = tool.input_schema();
        let offered: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(offered, read, "{}", tool.name());
    }
}
