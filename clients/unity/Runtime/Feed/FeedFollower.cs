using System;
using System.Runtime.ExceptionServices;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Follows a feed over as many connections as it takes.</summary>
    internal sealed class FeedFollower
    {
        /// <summary>The gateway sends something every 15 seconds: a longer silence is a lost connection.</summary>
        private const double SilenceS = 45;

        private readonly Connection connection;
        private readonly string path;
        private readonly FeedQuery query;
        private readonly Action<FeedEvent> onEvent;
        private string last;
        private int failures;

        internal FeedFollower(Connection connection, string path, FeedQuery query, Action<FeedEvent> onEvent)
        {
            this.connection = connection;
            this.path = path;
            this.query = query;
            this.onEvent = onEvent;
            last = query.After;
        }

        /// <summary>Follow until the caller gives up, the gateway refuses, or too many attempts in a row fail.</summary>
        internal async Task Follow(CancellationToken cancel)
        {
            while (true)
            {
                var lost = await Listen(cancel);
                cancel.ThrowIfCancellationRequested();
                failures++;
                var isTooLong = lost.RetryAfterS > Backoff.LongestAskedS;
                if (failures >= connection.Attempts || isTooLong || !Backoff.IsWorthRepeating(lost, true))
                {
                    throw lost;
                }

                await connection.Clock.Wait(Backoff.PauseS(failures, lost.RetryAfterS, connection.Chance()), cancel);
            }
        }

        /// <summary>Listen on one connection, and return why it ended.</summary>
        private async Task<ScoregateError> Listen(CancellationToken cancel)
        {
            var reader = new FeedReader(Take);
            Exception wrong = null;
            var request = connection.Request("GET", path + query.ToQuery()).With("Accept", "text/event-stream");
            request = query.Friends ? connection.AsPlayer(request) : request;
            if (!string.IsNullOrEmpty(last))
            {
                request.With("Last-Event-ID", last);
            }

            request.TimeoutS = SilenceS;
            request.OnBytes = (bytes, length) =>
            {
                try
                {
                    reader.Take(bytes, length);
                }
                catch (Exception error)
                {
                    wrong = error;
                }

                return wrong == null && !cancel.IsCancellationRequested;
            };
            try
            {
                var answer = await connection.Transport.Send(request, cancel);
                ThrowIfOfGame(wrong);
                if (!answer.IsSuccess)
                {
                    return connection.RefusalOf(answer);
                }

                if (wrong == null && answer.MediaType() != WireRequest.EventStream)
                {
                    return ScoregateError.Unreadable(answer.Status, "it is no event stream");
                }

                return ScoregateError.NoAnswer(new NoAnswerException(wrong?.Message ?? "the feed ended", true));
            }
            catch (NoAnswerException error)
            {
                return ScoregateError.NoAnswer(error);
            }
        }

        /// <summary>What the game's own code raised goes to the game, from no callback of a transport.</summary>
        private static void ThrowIfOfGame(Exception wrong)
        {
            if (wrong != null && !(wrong is JsonException))
            {
                ExceptionDispatchInfo.Capture(wrong).Throw();
            }
        }

        private void Take(FeedEvent item)
        {
            failures = 0;
            if (item.Kind.Length > 0)
            {
                onEvent(item);
            }

            if (item.Id != null)
            {
                last = item.Id;
            }
        }
    }
}
