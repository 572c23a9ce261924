//! The ladder by which a member is ended: it is asked, has until a deadline, is stopped, and its pane is closed.
//!
//! A pure state machine: whoever carries its orders out tells it what came of them. It never goes down a rung, and what it
//! is told twice changes nothing.

use std::time::Duration;

use crate::identity::Stopped;

/// How long each rung lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long a member that was asked has to end by itself.
    pub asked: Duration,
    /// How long its processes have to heed TERM, before they are killed.
    pub term: Duration,
}

/// How far the ladder was climbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// It was asked to shut down.
    Asked,
    /// Its processes are being stopped.
    Stopping,
    /// Nothing of it runs; its pane is being closed.
    Closing,
    /// All is over.
    Over,
}

/// What a ladder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderEvent {
    /// The time that was asked for with [`LadderOrder::Wait`] is up.
    TimeUp,
    /// Somebody does not want to wait.
    Hurry,
    /// It ended by itself.
    Ended,
    /// [`LadderOrder::Stop`] was carried out.
    Stopped(Stopped),
    /// [`LadderOrder::ClosePane`] was carried out; also when there was no pane, or it could not be closed.
    PaneClosed,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LadderOrder {
    /// Send it a shutdown request.
    Ask,
    /// Tell the ladder when so much time has passed.
    Wait(Duration),
    /// Stop its processes: TERM to the group, so much time, KILL.
    Stop(Duration),
    /// Close its pane.
    ClosePane,
    /// Nothing more; this is how it ended.
    Finish(LadderEnd),
}

/// How a ladder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderEnd {
    /// It ended by itself.
    ByItself,
    /// It was stopped.
    Stopped,
    /// Something of it still runs, and nothing more can be done about that.
    Stuck,
}

/// The ladder of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    rung: Rung,
    patience: Patience,
    end: LadderEnd,
}

impl Ladder {
    /// Begins with asking.
    pub fn asking(patience: Patience) -> (Self, Vec<LadderOrder>) {
        let orders = vec![LadderOrder::Ask, LadderOrder::Wait(patience.asked)];
        (Self { rung: Rung::Asked, patience, end: LadderEnd::Stopped }, orders)
    }

    /// Begins with stopping: nobody is asked.
    pub fn forced(patience: Patience) -> (Self, Vec<LadderOrder>) {
        let orders = vec![LadderOrder::Stop(patience.term)];
        (Self { rung: Rung::Stopping, patience, end: LadderEnd::Stopped }, orders)
    }

    /// How far it was climbed.
    #[must_use]
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// Goes on by what is told.
    pub fn handle(&mut self, event: LadderEvent) -> Vec<LadderOrder> {
        match (self.rung, event) {
            (Rung::Asked, LadderEvent::TimeUp | LadderEvent::Hurry | LadderEvent::Ended) => {
                if event == LadderEvent::Ended {
                    self.end = LadderEnd::ByItself;
                }
                // What ended by itself may have left something running: that is stopped too.
                self.rung = Rung::Stopping;
                vec![LadderOrder::Stop(self.patience.term)]
            }
            (Rung::Stopping, LadderEvent::Stopped(stopped)) => {
                self.rung = Rung::Closing;
                self.end = match stopped {
                    Stopped::WasGone => LadderEnd::ByItself,
                    Stopped::Ended => self.end,
                    Stopped::StillRunning => LadderEnd::Stuck,
                };
                vec![LadderOrder::ClosePane]
            }
            (Rung::Closing, LadderEvent::PaneClosed) => {
                self.rung = Rung::Over;
                vec![LadderOrder::Finish(self.end)]
            }
            (Rung::Asked, LadderEvent::Stopped(_) | LadderEvent::PaneClosed)
            | (
                Rung::Stopping,
                LadderEvent::TimeUp
                | LadderEvent::Hurry
                | LadderEvent::Ended
                | LadderEvent::PaneClosed,
            )
            | (
                Rung::Closing,
                LadderEvent::TimeUp
                | LadderEvent::Hurry
                | LadderEvent::Ended
                | LadderEvent::Stopped(_),
            )
            | (
                Rung::Over,
                LadderEvent::TimeUp
                | LadderEvent::Hurry
                | LadderEvent::Ended
                | LadderEvent::Stopped(_)
                | LadderEvent::PaneClosed,
            ) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { asked: Duration::from_secs(20), term: Duration::from_secs(5) };

    /// Climbs by the events, and tells all orders after the first ones.
    fn climbed(
        (mut ladder, _): (Ladder, Vec<LadderOrder>),
        events: &[LadderEvent],
    ) -> (Rung, Vec<LadderOrder>) {
        let orders = events.iter().flat_map(|event| ladder.handle(*event)).collect();
        (ladder.rung(), orders)
    }

    #[test]
    fn one_that_is_asked_has_until_the_deadline() {
        let (ladder, orders) = Ladder::asking(PATIENCE);
        assert_eq!(orders, [LadderOrder::Ask, LadderOrder::Wait(PATIENCE.asked)]);
        let events =
            [LadderEvent::TimeUp, LadderEvent::Stopped(Stopped::Ended), LadderEvent::PaneClosed];
        let orders = [
            LadderOrder::Stop(PATIENCE.term),
            LadderOrder::ClosePane,
            LadderOrder::Finish(LadderEnd::Stopped),
        ];
        assert_eq!(climbed((ladder, Vec::new()), &events), (Rung::Over, orders.to_vec()));
    }

    #[test]
    fn what_one_that_ended_left_running_is_stopped_and_its_pane_closed() {
        let events =
            [LadderEvent::Ended, LadderEvent::Stopped(Stopped::Ended), LadderEvent::PaneClosed];
        let orders = [
            LadderOrder::Stop(PATIENCE.term),
            LadderOrder::ClosePane,
            LadderOrder::Finish(LadderEnd::ByItself),
        ];
        assert_eq!(climbed(Ladder::asking(PATIENCE), &events), (Rung::Over, orders.to_vec()));
    }

    #[test]
    fn force_asks_nobody_and_hurry_skips_the_rest_of_the_asking() {
        let (_, orders) = Ladder::forced(PATIENCE);
        assert_eq!(orders, [LadderOrder::Stop(PATIENCE.term)]);
        let (rung, orders) =
            climbed(Ladder::asking(PATIENCE), &[LadderEvent::Hurry, LadderEvent::TimeUp]);
        assert_eq!((rung, orders), (Rung::Stopping, vec![LadderOrder::Stop(PATIENCE.term)]));
    }

    #[test]
    fn what_cannot_be_killed_is_told_as_stuck() {
        let events = [LadderEvent::Stopped(Stopped::StillRunning), LadderEvent::PaneClosed];
        let (rung, orders) = climbed(Ladder::forced(PATIENCE), &events);
        assert_eq!(
            (rung, orders.last()),
            (Rung::Over, Some(&LadderOrder::Finish(LadderEnd::Stuck)))
        );
    }

    #[test]
    fn no_event_is_heeded_twice_and_no_rung_is_gone_down() {
        let all = [
            LadderEvent::TimeUp,
            LadderEvent::Hurry,
            LadderEvent::Ended,
            LadderEvent::Stopped(Stopped::Ended),
            LadderEvent::PaneClosed,
        ];
        // Every sequence of five events, with repetition.
        for number in 0..all.len().pow(5) {
            let (mut ladder, mut orders) = Ladder::asking(PATIENCE);
            let mut rung = ladder.rung();
            for place in 0..5 {
                orders.extend(ladder.handle(all[number / all.len().pow(place) % all.len()]));
                assert!(ladder.rung() >= rung);
                rung = ladder.rung();
            }
            let mut kinds: Vec<_> = orders.iter().map(std::mem::discriminant).collect();
            let told = kinds.len();
            kinds.dedup();
            assert_eq!(kinds.len(), told, "{orders:?}");
            assert_eq!(rung == Rung::Over, matches!(orders.last(), Some(LadderOrder::Finish(_))));
        }
    }
}
