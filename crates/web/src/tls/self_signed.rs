//! The certificate that the server makes and signs itself. It is made once and kept below the root,
//! so that its fingerprint stays the same.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pitcrew_team::store::{FileBackend, StoreError, WebFile};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

use super::CertificateError;
use crate::reach::HostName;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// How long a certificate is valid. Phones refuse one that is valid for more than 825 days.
const LASTS_MS: i64 = 800 * DAY_MS;

/// How long before its end a certificate is replaced.
const RENEWED_MS: i64 = 30 * DAY_MS;

/// The names that every certificate has.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The maximum number of names in a certificate.
const NAMES_MOST: usize = 32;

/// A certificate and its private key.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The certificate in DER form.
    pub(super) certificate: Vec<u8>,
    /// The private key in DER form (PKCS #8).
    pub(super) key: Vec<u8>,
}

/// The names for which a certificate is wanted.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// A certificate without one of these names is replaced.
    names: Vec<String>,
    /// An address that a new certificate gets. It may change from day to day, and a new certificate
    /// would have another fingerprint.
    address: Option<String>,
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    names: Vec<String>,
    ends_at_ms: i64,
    /// DER in base64, as the key is.
    certificate: String,
    key: String,
}

impl Record {
    fn kept(&self) -> Option<Kept> {
        let certificate = BASE64_STANDARD.decode(&self.certificate).ok()?;
        let key = BASE64_STANDARD.decode(&self.key).ok()?;
        Some(Kept { certificate, key })
    }

    fn fits(&self, wanted: &Wanted, now_ms: i64) -> bool {
        self.ends_at_ms.saturating_sub(RENEWED_MS) > now_ms
            && wanted.names.iter().all(|name| self.names.contains(name))
    }
}

/// Returns the kept certificate, or makes one with these names and those of the one before.
pub(super) async fn kept(
    files: &FileBackend,
    now_ms: i64,
    names: &[HostName],
    address: IpAddr,
) -> Result<Kept, CertificateError> {
    let wanted = Wanted {
        names: names.iter().map(|name| name.bare().to_owned()).collect(),
        address: Some(address.to_canonical().to_string()),
    };
    let again = wanted.clone();
    let edited = files.edit_web_file(WebFile::Certificate, move |content| {
        match chosen(content.as_deref(), wanted, now_ms) {
            Ok((kept, written)) => (written, Ok(kept)),
            Err(error) => (None, Err(error)),
        }
    });
    match edited.await {
        Ok(kept) => kept,
        Err(StoreError::Io { source, .. }) if is_unwritable(&source) => {
            let content = files.web_file(WebFile::Certificate).await?;
            Ok(chosen(content.as_deref(), again, now_ms)?.0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the system refused a write because the folder can only be read.
fn is_unwritable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Returns the certificate in the file if it fits. Otherwise returns a new one, and the new content
/// of the file.
fn chosen(
    content: Option<&[u8]>,
    wanted: Wanted,
    now_ms: i64,
) -> Result<(Kept, Option<Vec<u8>>), CertificateError> {
    // A file of another form is replaced: nothing is lost but a fingerprint.
    let before: Option<Record> = content.and_then(|it| serde_json::from_slice(it).ok());
    if let Some(record) = before.as_ref().filter(|record| record.fits(&wanted, now_ms))
        && let Some(kept) = record.kept()
    {
        return Ok((kept, None));
    }
    let mut names: Vec<String> = ALWAYS.map(str::to_owned).into();
    let earlier = before.into_iter().flat_map(|record| record.names);
    for name in wanted.names.into_iter().chain(wanted.address).chain(earlier) {
        if !names.contains(&name) && names.len() < NAMES_MOST {
            names.push(name);
        }
    }
    let record = made(names, now_ms).map_err(CertificateError::Made)?;
    let written = serde_json::to_vec_pretty(&record).ok();
    let kept = record.kept().ok_or(CertificateError::Certificate)?;
    Ok((kept, written))
}

fn made(names: Vec<String>, now_ms: i64) -> Result<Record, rcgen::Error> {
    let ends_at_ms = now_ms.saturating_add(LASTS_MS);
    let key = KeyPair::generate()?;
    let mut wanted = CertificateParams::new(names.clone())?;
    wanted.distinguished_name = DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, "pitcrew serve");
    // The clocks of other machines can be behind this one.
    let [(year, month, day), last] = [now_ms.saturating_sub(DAY_MS), ends_at_ms].map(day_of);
    wanted.not_before = date_time_ymd(year, month, day);
    wanted.not_after = date_time_ymd(last.0, last.1, last.2);
    wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = BASE64_STANDARD.encode(wanted.self_signed(&key)?.der());
    Ok(Record { names, ends_at_ms, certificate, key: BASE64_STANDARD.encode(key.serialize_der()) })
}

/// Returns year, month and day of a time, in UTC.
fn day_of(ms: i64) -> (i32, u8, u8) {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let date = time.to_zoned(TimeZone::UTC).date();
    (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_175_309_000;

    fn wanted(name: &str, address: &str) -> Wanted {
        Wanted { names: vec![name.to_owned()], address: Some(address.to_owned()) }
    }

    fn names_in(file: &[u8]) -> Vec<String> {
        serde_json::from_slice::<Record>(file).unwrap().names
    }

    #[test]
    fn a_certificate_is_made_once_and_again_for_a_new_name_or_near_its_end() {
        let home = || wanted("box.home", "192.168.1.5");
        let (first, written) = chosen(None, home(), NOW).unwrap();
        let file = written.unwrap();
        assert_eq!(names_in(&file)[ALWAYS.len()..], ["box.home", "192.168.1.5"]);
        let (same, none) = chosen(Some(&file), home(), NOW + DAY_MS).unwrap();
        assert_eq!((&same.certificate, none), (&first.certificate, None));
        let moved = wanted("box.home", "192.168.1.6");
        assert_eq!(chosen(Some(&file), moved, NOW).unwrap().1, None, "another address");
        let (more, written) = chosen(Some(&file), wanted("::2", "::3"), NOW).unwrap();
        let all = ["::2", "::3", "box.home", "192.168.1.5"];
        assert_eq!(names_in(&written.unwrap())[ALWAYS.len()..], all);
        assert_ne!(more.certificate, first.certificate);
        let late = NOW + LASTS_MS - RENEWED_MS;
        assert!(chosen(Some(&file), home(), late).unwrap().1.is_some(), "near its end");
        assert!(chosen(Some(b"{"), home(), NOW).unwrap().1.is_some(), "another form");
    }

    #[test]
    fn the_certificate_is_for_its_names_and_its_key() {
        let (kept, _) = chosen(None, wanted("box.home", "2001:db8::7"), NOW).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(kept.key).unwrap();
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        assert!(
            rustls::sign::CertifiedKey::new(vec![kept.certificate.clone().into()], key)
                .keys_match()
                .is_ok()
        );
        let der = kept.certificate.into();
        let certificate = webpki::EndEntityCert::try_from(&der).unwrap();
        for (name, is_in) in [("box.home", true), ("2001:db8::7", true), ("other.home", false)] {
            let name = rustls::pki_types::ServerName::try_from(name).unwrap();
            let found = certificate.verify_is_valid_for_subject_name(&name);
            assert_eq!(found.is_ok(), is_in, "{name:?}");
        }
    }
}
