use proptest::prelude::*;

use super::*;
use crate::entropy::Entropy;

fn signer(seed: u64, made_ms: i64) -> LeadSigner {
    LeadSigner::of(&Entropy::seeded(seed).seed().unwrap(), made_ms)
}

fn holder(pid: u32, key: Option<&VerifyKey>) -> LeaseHolder {
    LeaseHolder {
        pid,
        start_ticks: 7,
        since_ms: 0,
        verify_key: key.map(ToString::to_string),
        prepares: false,
    }
}

#[test]
fn a_key_reads_back_as_it_is_written_and_the_private_part_is_never_shown() {
    let signer = signer(1, 1_795_175_309_433);
    let text = signer.verify_key().to_string();
    assert!(text.starts_with("1795175309433.MCowBQYDK2VwAyEA"), "{text}");
    assert_eq!(text.parse(), Ok(*signer.verify_key()));
    assert_eq!(format!("{signer:?}"), "LeadSeal");
    for bad in ["", "5", "5.", "x.MCowBQYDK2VwAyEA", &text[1..50], &format!("{text}A"), "5.AAAA"] {
        assert!(bad.parse::<VerifyKey>().is_err(), "{bad}");
    }
    let weak = URL_SAFE_NO_PAD.encode([SPKI.as_slice(), &[0; 32]].concat());
    assert!(format!("5.{weak}").parse::<VerifyKey>().is_err(), "a key anybody can sign for");
}

#[test]
fn a_signature_fits_what_was_said_and_nothing_else() {
    let (signer, other) = (signer(1, 1), signer(2, 1));
    let said = Said { domain: "a", parts: vec![Some(b"bob"), None] };
    let signature = signer.sign(&said);
    let keys = LeadKeys::from(*signer.verify_key());
    assert!(keys.vouch_for(&said, &signature));
    assert!(!LeadKeys::from(*other.verify_key()).vouch_for(&said, &signature));
    assert!(
        LeadKeys::new(*other.verify_key(), [*signer.verify_key()]).vouch_for(&said, &signature)
    );
    for changed in [
        Said { domain: "b", ..said.clone() },
        Said { parts: vec![Some(b"bob"), Some(b"")], ..said.clone() },
        Said { parts: vec![Some(b"bob")], ..said.clone() },
    ] {
        assert!(!keys.vouch_for(&changed, &signature), "{changed:?}");
    }
    for bad in ["", "AAAA", &signature[1..], "not base64 at all!"] {
        assert!(!keys.vouch_for(&said, bad), "{bad}");
    }
}

#[test]
fn a_key_changes_only_with_the_holder_of_the_lease_and_after_the_old_lead_has_ended() {
    let (old, new) = (*signer(1, 10).verify_key(), *signer(2, 20).verify_key());
    let (trust, known) = (Trust::of(Some(old)), holder(1, Some(&old)));
    assert_eq!(trust.renewed(Some(&known), false, &holder(1, Some(&old))), Ok(trust.clone()));
    let renewed = trust.renewed(Some(&known), true, &holder(2, Some(&new))).unwrap();
    let Trust::Signed(keys) = &renewed else { panic!("{renewed:?}") };
    assert_eq!(keys.to_string().parse().as_ref(), Ok(keys));
    assert_eq!((keys.now(), &keys.0.earlier), (&new, &vec![old]));
    let refused = |ended, next: &LeaseHolder| trust.renewed(Some(&known), ended, next).unwrap_err();
    assert_eq!(refused(false, &holder(2, Some(&new))), NotRenewed::OldLeadLives { pid: 1 });
    assert_eq!(refused(true, &holder(1, Some(&new))), NotRenewed::OldLeadLives { pid: 1 });
    assert_eq!(refused(true, &holder(2, None)), NotRenewed::SignsNothing { pid: 2 });
    let broken = LeaseHolder { verify_key: Some("5.x".to_owned()), ..holder(2, None) };
    assert_eq!(refused(true, &broken), NotRenewed::NoKey { pid: 2 });
    assert_eq!(
        Trust::Founding.renewed(Some(&holder(1, None)), true, &holder(2, Some(&new))),
        Ok(Trust::of(Some(new)))
    );
    assert_eq!(
        Trust::Founding.renewed(Some(&holder(1, None)), true, &holder(2, None)),
        Ok(Trust::Founding)
    );
    assert_eq!(
        Trust::Founding.renewed(None, false, &holder(1, Some(&new))),
        Ok(Trust::of(Some(new)))
    );
    assert_eq!(
        trust.renewed(None, false, &holder(1, Some(&new))),
        Err(NotRenewed::OldLeadLives { pid: 1 })
    );
}

/// Decodes the bytes to sign. Decoding works only if the encoding is unambiguous.
fn read(mut bytes: &[u8]) -> (Vec<u8>, Vec<Option<Vec<u8>>>) {
    fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(length);
        *bytes = rest;
        taken
    }
    fn length(bytes: &mut &[u8]) -> usize {
        usize::try_from(u64::from_be_bytes(take(bytes, 8).try_into().unwrap())).unwrap()
    }
    let domain = length(&mut bytes);
    let domain = take(&mut bytes, domain).to_vec();
    let parts = (0..length(&mut bytes)).map(|_| {
        let is_there = take(&mut bytes, 1) == [1];
        let long = length(&mut bytes);
        let part = take(&mut bytes, long).to_vec();
        is_there.then_some(part)
    });
    (domain, parts.collect())
}

proptest! {
    #[test]
    fn what_is_signed_can_be_read_back_so_no_two_things_are_the_same_bytes(
        parts in proptest::collection::vec(proptest::option::of(proptest::collection::vec(0u8..3, 0..12)), 0..6),
    ) {
        let said = Said { domain: "d", parts: parts.iter().map(Option::as_deref).collect() };
        prop_assert_eq!(read(&said.to_bytes()), (b"d".to_vec(), parts));
    }

    #[test]
    fn parts_cut_elsewhere_are_other_bytes(whole in "[ab0-9:\n]{0,12}", a in 0usize..12, b in 0usize..12) {
        let cut = |at: usize| {
            let (one, two) = whole.as_bytes().split_at(at.min(whole.len()));
            Said { domain: "d", parts: vec![Some(one), Some(two)] }.to_bytes()
        };
        prop_assert_eq!(cut(a) == cut(b), a.min(whole.len()) == b.min(whole.len()));
    }
}
