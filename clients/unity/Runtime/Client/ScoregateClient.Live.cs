using System;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>What happens while somebody looks.</content>
    public sealed partial class ScoregateClient
    {
        private const double FirstPollS = 0.5;
        private const double LongestPollS = 5;

        /// <summary>
        /// Call <paramref name="onEvent"/> with each event of a board's live feed until <paramref name="cancel"/> is
        /// used. It reconnects by itself and misses nothing; read the board at each begin and reset.
        /// </summary>
        /// <exception cref="OperationCanceledException">The caller gave up.</exception>
        public Task Watch(string board, FeedQuery query, Action<FeedEvent> onEvent, CancellationToken cancel) =>
            new FeedFollower(connection, BoardPath(board) + "/live", query ?? new FeedQuery(), onEvent).Follow(cancel);

        /// <summary>
        /// Wait until a submission is neither received nor pending, and return it. A held one is returned too: it waits
        /// for a person. The board's live feed tells when to look, and polling helps where there is none.
        /// </summary>
        /// <exception cref="ScoregateError">With the reason "timeout" after that many seconds.</exception>
        public async Task<Submission> WaitUntilSettled(
            string submission, double timeoutS = 60, CancellationToken cancel = default(CancellationToken))
        {
            var untilS = connection.Clock.NowS + timeoutS;
            var found = await Submission(submission, cancel);
            if (IsSettled(found))
            {
                return found;
            }

            using (var end = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                var hint = new Hint();
                var watching = Listen(found, hint, end.Token);
                try
                {
                    return await Poll(found, untilS, hint, end.Token);
                }
                finally
                {
                    end.Cancel();
                    await watching;
                }
            }
        }

        private async Task<Submission> Poll(Submission found, double untilS, Hint hint, CancellationToken cancel)
        {
            var pauseS = FirstPollS;
            while (!IsSettled(found))
            {
                var leftS = untilS - connection.Clock.NowS;
                if (leftS <= 0)
                {
                    throw ScoregateError.Own("timeout", "The submission is still " + found.State + ".");
                }

                var isHinted = await hint.Wait(connection.Clock, Math.Min(pauseS, leftS), cancel);
                pauseS = isHinted ? FirstPollS : Math.Min(pauseS * 2, LongestPollS);
                found = await ReadIfPossible(found, cancel);
            }

            return found;
        }

        private async Task<Submission> ReadIfPossible(Submission known, CancellationToken cancel)
        {
            try
            {
                return await Submission(known.Id, cancel);
            }
            catch (ScoregateError error) when (Backoff.IsWorthRepeating(error, true))
            {
                return known;
            }
        }

        private async Task Listen(Submission submission, Hint hint, CancellationToken cancel)
        {
            try
            {
                var query = new FeedQuery { Players = new[] { submission.Player } };
                await Watch(submission.Board, query, _ => hint.Give(), cancel);
            }
            catch (ScoregateError)
            {
                // Polling goes on without the feed.
            }
            catch (OperationCanceledException)
            {
                // The wait is over.
            }
        }

        private static bool IsSettled(Submission submission) =>
            submission.State != "received" && submission.State != "pending";
    }
}
