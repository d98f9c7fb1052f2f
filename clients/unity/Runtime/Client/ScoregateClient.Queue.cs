using System;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>Runs that are sent later, and not lost.</content>
    public sealed partial class ScoregateClient
    {
        private readonly RunQueue queue;
        private Task<FlushReport> flushing;

        /// <summary>The number of runs that wait to be sent.</summary>
        public int Waiting => Queue().Names().Count;

        /// <summary>
        /// Write a run into the queue. Once the returned task has ended, the run survives the end of the game and a loss
        /// of power, and <see cref="Flush"/> sends it. With <paramref name="committed"/> it sends the recording's digest
        /// first, and the recording when it is asked for. The same run with the same claim is written once.
        /// </summary>
        /// <exception cref="ScoregateError">With the reason queue-full, or queue-unwritable.</exception>
        public async Task<QueueEntry> SubmitLater(
            Run run, Claim claim, bool committed = false, CancellationToken cancel = default(CancellationToken))
        {
            var nowS = connection.Clock.NowS;
            var body = committed ? claim.CommittedText() : claim.Text();
            var recording = committed ? claim.Recording : null;
            var entry = Queue().Add(QueueEntry.Of(run, body, recording, (long)nowS), nowS);
            await Defaults.SyncDisk(connection.Clock, cancel);
            return entry;
        }

        /// <summary>
        /// Send what waits, the oldest first, and return what became of each. An entry goes only on the gateway's last
        /// word. A flush that is called while another goes on is the same; while another process flushes this folder,
        /// nothing is sent, and all is kept. Call it when the game starts and when the network is back.
        /// </summary>
        public Task<FlushReport> Flush(CancellationToken cancel = default(CancellationToken))
        {
            if (flushing == null || flushing.IsCompleted)
            {
                flushing = FlushOnce(cancel);
            }

            return flushing;
        }

        private async Task<FlushReport> FlushOnce(CancellationToken cancel)
        {
            try
            {
                return await FlushHeld(cancel);
            }
            catch (Exception error) when (RunQueue.IsOfDisk(error))
            {
                throw RunQueue.Unwritable(error); // what was not deleted is sent again, and counts once
            }
        }

        private async Task<FlushReport> FlushHeld(CancellationToken cancel)
        {
            using (var held = Queue().TryLock())
            {
                if (held == null)
                {
                    var kept = queue.Names().ConvertAll(name => new FlushOutcome(name, FlushOutcome.Kept));
                    return new FlushReport(kept, new string[0]);
                }

                var report = await new QueueFlush(this, connection, queue).Run(cancel);
                await Defaults.SyncDisk(connection.Clock, cancel);
                return report;
            }
        }

        private RunQueue Queue() =>
            queue ?? throw ScoregateError.Own("queue-missing", "Name a QueueFolder in the options.");
    }
}
