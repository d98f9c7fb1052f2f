#if UNITY_5_3_OR_NEWER
using System.Collections;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;
using UnityEngine.Networking;

namespace Scoregate
{
    /// <summary>A request on its way: looks once a frame whether it is done, took too long, or is wanted no more.</summary>
    internal sealed class UnityExchange
    {
        private readonly TaskCompletionSource<WireAnswer> answer = new TaskCompletionSource<WireAnswer>();
        private readonly WireRequest request;
        private readonly UnityWebRequest web;
        private readonly PieceHandler handler;
        private readonly CancellationToken cancel;
        private double silentSince;
        private long seenBytes;

        internal UnityExchange(
            WireRequest request, UnityWebRequest web, PieceHandler handler, CancellationToken cancel)
        {
            this.request = request;
            this.web = web;
            this.handler = handler;
            this.cancel = cancel;
            silentSince = Time.realtimeSinceStartupAsDouble;
        }

        internal Task<WireAnswer> Answer => answer.Task;

        internal IEnumerator Run()
        {
            using (web)
            {
                while (!web.isDone && !cancel.IsCancellationRequested && !IsTooLate())
                {
                    yield return null;
                }

                if (!web.isDone)
                {
                    web.Abort();
                    GiveUp();
                }
                else
                {
                    Finish();
                }
            }
        }

        private bool IsTooLate()
        {
            if (handler.IsStreamed && handler.Bytes != seenBytes)
            {
                seenBytes = handler.Bytes;
                silentSince = Time.realtimeSinceStartupAsDouble;
            }

            return Time.realtimeSinceStartupAsDouble - silentSince > request.PatienceS;
        }

        private void GiveUp()
        {
            if (cancel.IsCancellationRequested)
            {
                answer.TrySetCanceled();
            }
            else
            {
                answer.TrySetException(new NoAnswerException("it took too long", true));
            }
        }

        private void Finish()
        {
            if (handler.IsTooLarge)
            {
                answer.TrySetException(new NoAnswerException("the answer is too large", true));
            }
            else if (IsAnswered())
            {
                var headers = web.GetResponseHeaders() ?? new System.Collections.Generic.Dictionary<string, string>();
                answer.TrySetResult(new WireAnswer((int)web.responseCode, headers, handler.Kept()));
            }
            else
            {
                answer.TrySetException(new NoAnswerException(web.error ?? "no answer", !FailedToConnect(web.error)));
            }
        }

        // A redirect that is not followed is an error of Unity's, with its status. A stream that this client ended is one too.
        private bool IsAnswered()
        {
            var status = web.responseCode;
            var isWhole = web.result == UnityWebRequest.Result.Success
                || web.result == UnityWebRequest.Result.ProtocolError;
            return status > 0 && (isWhole || handler.IsStreamed || (status >= 300 && status < 400));
        }

        // The words of Unity's own error codes; in any other case the request may have been sent.
        private static bool FailedToConnect(string error) =>
            error == "Cannot connect to destination host" || error == "Cannot resolve destination host";
    }
}
#endif
