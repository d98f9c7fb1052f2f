#if UNITY_5_3_OR_NEWER
using System.Collections;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

namespace Scoregate
{
    /// <summary>The clock of a Unity player. It waits on the player loop, whatever the time scale is.</summary>
    public sealed class UnityClock : IClock
    {
        /// <inheritdoc/>
        public double NowS => SystemClock.SecondsSince1970();

        /// <inheritdoc/>
        public Task Wait(double seconds, CancellationToken cancel)
        {
            var done = new TaskCompletionSource<bool>();
            ScoregateRunner.Begin(Until(Time.realtimeSinceStartupAsDouble + seconds, done, cancel));
            return done.Task;
        }

        private static IEnumerator Until(double end, TaskCompletionSource<bool> done, CancellationToken cancel)
        {
            while (Time.realtimeSinceStartupAsDouble < end && !cancel.IsCancellationRequested)
            {
                yield return null;
            }

            if (cancel.IsCancellationRequested)
            {
                done.TrySetCanceled();
            }
            else
            {
                done.TrySetResult(true);
            }
        }
    }
}
#endif
