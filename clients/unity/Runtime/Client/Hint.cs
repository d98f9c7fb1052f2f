using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Ends a wait early. A hint that nobody waits for is kept for the next wait.</summary>
    internal sealed class Hint
    {
        private readonly object guard = new object();
        private TaskCompletionSource<bool> given = new TaskCompletionSource<bool>();

        internal void Give()
        {
            TaskCompletionSource<bool> waiting;
            lock (guard)
            {
                waiting = given;
            }

            waiting.TrySetResult(true);
        }

        /// <summary>Wait for a hint or that many seconds; return whether there was a hint.</summary>
        internal async Task<bool> Wait(IClock clock, double seconds, CancellationToken cancel)
        {
            using (var enough = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                var pause = clock.Wait(seconds, enough.Token);
                var first = await Task.WhenAny(given.Task, pause);
                if (first == pause)
                {
                    await pause;
                    return false;
                }

                enough.Cancel();
                lock (guard)
                {
                    given = new TaskCompletionSource<bool>();
                }

                return true;
            }
        }
    }
}
