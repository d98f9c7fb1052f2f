using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>One flush of a queue: sends what waits, the oldest first, and then the recordings that are asked for.</summary>
    internal sealed class QueueFlush
    {
        private const long KeptS = 7 * 24 * 3600;

        /// <summary>A board may ask for a recording long after the run, and then gives up to 30 days to send it.</summary>
        private const long RecordingKeptS = 60 * 24 * 3600;

        /// <summary>So many sent runs are looked at in one flush.</summary>
        private const int MostLooks = 20;

        private readonly ScoregateClient client;
        private readonly Connection connection;
        private readonly RunQueue queue;
        private readonly List<FlushOutcome> outcomes = new List<FlushOutcome>();
        private readonly List<string> revealed = new List<string>();

        internal QueueFlush(ScoregateClient client, Connection connection, RunQueue queue)
        {
            this.client = client;
            this.connection = connection;
            this.queue = queue;
        }

        /// <summary>Send everything once, and return what became of it, in order.</summary>
        internal async Task<FlushReport> Run(CancellationToken cancel)
        {
            var lost = await SendWaiting(cancel);
            if (lost == null && !string.IsNullOrEmpty(connection.Token))
            {
                await SendRecordings(cancel);
            }

            return new FlushReport(outcomes, revealed);
        }

        /// <summary>Return the error after which nothing else was tried, or null.</summary>
        private async Task<ScoregateError> SendWaiting(CancellationToken cancel)
        {
            ScoregateError lost = null;
            foreach (var name in queue.Names())
            {
                var entry = Load(name, KeptS);
                if (entry == null)
                {
                    continue;
                }

                if (lost == null)
                {
                    lost = await Send(entry, cancel);
                }
                else
                {
                    Tell(entry, FlushOutcome.Kept, lost);
                }
            }

            return lost;
        }

        /// <summary>Return an entry; null if it is too old, damaged or gone.</summary>
        private QueueEntry Load(string name, long keptS)
        {
            try
            {
                var entry = queue.Read(name);
                // By one clock, as it was written: what the gateway has said of its own since would age all entries.
                if (connection.Clock.NowS - entry.WrittenAt <= keptS)
                {
                    return entry;
                }

                queue.Remove(name);
                Tell(entry, FlushOutcome.Expired, null);
            }
            catch (JsonException)
            {
                queue.SetAside(name);
                outcomes.Add(new FlushOutcome(name, FlushOutcome.Damaged));
            }
            catch (FileNotFoundException)
            {
                // Nothing is left to do.
            }

            return null;
        }

        /// <summary>Send an entry. Return the error if others would fare no better.</summary>
        private async Task<ScoregateError> Send(QueueEntry entry, CancellationToken cancel)
        {
            try
            {
                var key = Convert.FromBase64String(entry.Key);
                var body = Encoding.UTF8.GetBytes(entry.Body);
                var path = ScoregateClient.ScoresPath(entry.Board);
                var json = await connection.CallSigned(path, entry.Ticket, key, body, cancel);
                TakeAnswer(entry, json);
                return null;
            }
            catch (ScoregateError error) when (IsFinal(error))
            {
                queue.Remove(entry.Name);
                Tell(entry, FlushOutcome.Refused, error);
                return null;
            }
            catch (ScoregateError error)
            {
                Tell(entry, FlushOutcome.Kept, error);
                return IsForAll(error) ? error : null;
            }
        }

        /// <summary>Without a network, or before a busy gateway, the next entry would fare no better.</summary>
        private static bool IsForAll(ScoregateError error) =>
            error.Status == 0 || error.Status == 429 || error.Status == 503;

        private void TakeAnswer(QueueEntry entry, JsonValue json)
        {
            var submission = json["submission"];
            if (submission.Kind != JsonKind.Text || submission.AsText().Length == 0)
            {
                throw ScoregateError.Unreadable(200, "no submission is named");
            }

            if (entry.Recording == null)
            {
                queue.Remove(entry.Name);
            }
            else
            {
                queue.KeepRecording(entry, submission.AsText());
            }

            outcomes.Add(new FlushOutcome(entry.Name, FlushOutcome.Accepted) { Entry = entry, Receipt = ReceiptOf(json) });
        }

        private static Receipt ReceiptOf(JsonValue json)
        {
            try
            {
                return new Receipt(json);
            }
            catch (JsonException)
            {
                return null; // of a later gateway
            }
        }

        /// <summary>Only a refusal by the gateway itself ends an entry: a proxy, a hotel's page, a busy gateway do not.</summary>
        private static bool IsFinal(ScoregateError error)
        {
            switch (error.Status)
            {
                case 401:
                case 408:
                case 421:
                case 425:
                case 429:
                    return false;
                default:
                    return error.IsOfGateway && error.Status >= 400 && error.Status < 500;
            }
        }

        private async Task SendRecordings(CancellationToken cancel)
        {
            var names = queue.Names(wereSent: true);
            var sent = new List<QueueEntry>();
            foreach (var name in names)
            {
                var entry = Load(name, RecordingKeptS);
                if (entry?.Submission != null)
                {
                    sent.Add(entry);
                }
            }

            if (sent.Count == 0)
            {
                return;
            }

            try
            {
                await AnswerReveals(sent, cancel);
                await LookAtSome(sent, cancel);
            }
            catch (ScoregateError)
            {
                // The recordings are kept; the next flush tries again.
            }
        }

        private async Task AnswerReveals(List<QueueEntry> sent, CancellationToken cancel)
        {
            foreach (var reveal in await client.Reveals(cancel))
            {
                var entry = sent.Find(item => item.Submission == reveal.Submission);
                if (entry != null && await IsRevealed(entry, cancel))
                {
                    revealed.Add(reveal.Submission);
                }
            }
        }

        private async Task<bool> IsRevealed(QueueEntry entry, CancellationToken cancel)
        {
            try
            {
                await client.Reveal(entry.Submission, Convert.FromBase64String(entry.Recording), cancel);
                return true;
            }
            catch (ScoregateError error) when (IsFinal(error))
            {
                return false; // one must not hold up the others
            }
        }

        /// <summary>Let those recordings go that nobody asks for any more.</summary>
        private async Task LookAtSome(List<QueueEntry> sent, CancellationToken cancel)
        {
            var first = (int)(connection.Chance() * sent.Count);
            for (var step = 0; step < Math.Min(sent.Count, MostLooks); step++)
            {
                var entry = sent[(first + step) % sent.Count];
                if (await IsOver(entry, cancel))
                {
                    queue.Remove(entry.Name);
                }
            }
        }

        private async Task<bool> IsOver(QueueEntry entry, CancellationToken cancel)
        {
            try
            {
                var found = await client.Submission(entry.Submission, cancel);
                return found.Verified == true || found.State == "rejected" || found.State == "superseded";
            }
            catch (ScoregateError error) when (error.Status == 404 && error.IsOfGateway)
            {
                return false; // another player's, who may come back
            }
        }

        private void Tell(QueueEntry entry, string outcome, ScoregateError problem) =>
            outcomes.Add(new FlushOutcome(entry.Name, outcome) { Entry = entry, Problem = problem });
    }
}
