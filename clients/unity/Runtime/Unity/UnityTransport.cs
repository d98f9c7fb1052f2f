#if UNITY_5_3_OR_NEWER
using System;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine.Networking;

namespace Scoregate
{
    /// <summary>Sends by UnityWebRequest, on every platform that Unity has. It follows no redirect where Unity decides.</summary>
    public sealed class UnityTransport : ITransport
    {
        /// <inheritdoc/>
        public Task<WireAnswer> Send(WireRequest request, CancellationToken cancel)
        {
            cancel.ThrowIfCancellationRequested();
            var handler = new PieceHandler(request);
            var web = new UnityWebRequest(request.Url, request.Method) { downloadHandler = handler, redirectLimit = 0 };
            try
            {
                if (request.Body != null)
                {
                    web.uploadHandler = new UploadHandlerRaw(request.Body);
                }

                foreach (var header in request.Headers)
                {
                    web.SetRequestHeader(header.Key, header.Value);
                }

                handler.Web = web;
                web.SendWebRequest();
            }
            catch (InvalidOperationException error)
            {
                web.Dispose();
                throw new NoAnswerException(error.Message, false, error); // such as: no insecure connections
            }

            var exchange = new UnityExchange(request, web, handler, cancel);
            ScoregateRunner.Begin(exchange.Run());
            return exchange.Answer;
        }
    }
}
#endif
