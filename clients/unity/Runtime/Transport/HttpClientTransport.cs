using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Sends by <see cref="HttpClient"/>: for programs outside of Unity, and servers built with it.</summary>
    public sealed class HttpClientTransport : ITransport, IDisposable
    {
        private const int PieceBytes = 16 * 1024;
        private readonly HttpClient http;

        /// <summary>Make a transport with connections of its own.</summary>
        public HttpClientTransport()
        {
            var handler = new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false };
            http = new HttpClient(handler) { Timeout = Timeout.InfiniteTimeSpan };
        }

        /// <inheritdoc/>
        public async Task<WireAnswer> Send(WireRequest request, CancellationToken cancel)
        {
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            using (var message = MessageOf(request))
            {
                var patience = TimeSpan.FromSeconds(request.PatienceS);
                limit.CancelAfter(patience);
                try
                {
                    return await Exchange(request, message, limit, patience);
                }
                catch (Exception error) when (IsNoAnswer(error))
                {
                    cancel.ThrowIfCancellationRequested();
                    var reason = limit.IsCancellationRequested ? "it took too long" : Innermost(error).Message;
                    throw new NoAnswerException(reason, !FailedToConnect(error), error);
                }
            }
        }

        /// <summary>Close the connections.</summary>
        public void Dispose() => http.Dispose();

        private async Task<WireAnswer> Exchange(
            WireRequest request, HttpRequestMessage message, CancellationTokenSource limit, TimeSpan patience)
        {
            const HttpCompletionOption AtTheHead = HttpCompletionOption.ResponseHeadersRead;
            using (var response = await http.SendAsync(message, AtTheHead, limit.Token))
            using (limit.Token.Register(response.Dispose)) // a read of Mono hears of no token
            using (var body = await response.Content.ReadAsStreamAsync())
            {
                var status = (int)response.StatusCode;
                var type = WireAnswer.MediaTypeOf(response.Content.Headers.ContentType?.MediaType);
                var isStreamed = request.OnBytes != null && status == 200 && type == WireRequest.EventStream;
                var kept = new MemoryStream();
                var piece = new byte[PieceBytes];
                while (true)
                {
                    var length = await body.ReadAsync(piece, 0, piece.Length, limit.Token);
                    if (length == 0)
                    {
                        break;
                    }

                    if (isStreamed)
                    {
                        limit.CancelAfter(patience);
                        if (!request.OnBytes(piece, length))
                        {
                            break;
                        }
                    }
                    else
                    {
                        Keep(kept, piece, length, request.MostBytes);
                    }
                }

                return new WireAnswer(status, HeadersOf(response), kept.ToArray());
            }
        }

        private static void Keep(MemoryStream kept, byte[] piece, int length, int most)
        {
            if (kept.Length + length > most)
            {
                throw new NoAnswerException("the answer is too large", true);
            }

            kept.Write(piece, 0, length);
        }

        private static HttpRequestMessage MessageOf(WireRequest request)
        {
            var message = new HttpRequestMessage(new HttpMethod(request.Method), request.Url);
            message.Headers.ExpectContinue = false;
            if (request.Body != null)
            {
                message.Content = new ByteArrayContent(request.Body);
            }

            foreach (var header in request.Headers)
            {
                var isOfBody = header.Key.StartsWith("Content-", StringComparison.OrdinalIgnoreCase);
                if (isOfBody && message.Content != null && header.Key != "Content-Digest")
                {
                    message.Content.Headers.TryAddWithoutValidation(header.Key, header.Value);
                }
                else
                {
                    message.Headers.TryAddWithoutValidation(header.Key, header.Value);
                }
            }

            return message;
        }

        private static IEnumerable<KeyValuePair<string, string>> HeadersOf(HttpResponseMessage response)
        {
            foreach (var header in response.Headers)
            {
                yield return new KeyValuePair<string, string>(header.Key, string.Join(", ", header.Value));
            }

            foreach (var header in response.Content.Headers)
            {
                yield return new KeyValuePair<string, string>(header.Key, string.Join(", ", header.Value));
            }
        }

        private static bool IsNoAnswer(Exception error) =>
            error is HttpRequestException || error is IOException || error is OperationCanceledException
            || error is WebException || error is SocketException || error is ObjectDisposedException;

        private static bool FailedToConnect(Exception error)
        {
            for (var cause = error; cause != null; cause = cause.InnerException)
            {
                if (cause is WebException web)
                {
                    return web.Status == WebExceptionStatus.ConnectFailure
                        || web.Status == WebExceptionStatus.NameResolutionFailure;
                }

                if (cause is SocketException socket)
                {
                    return socket.SocketErrorCode == SocketError.ConnectionRefused
                        || socket.SocketErrorCode == SocketError.HostNotFound
                        || socket.SocketErrorCode == SocketError.HostUnreachable
                        || socket.SocketErrorCode == SocketError.NetworkUnreachable;
                }
            }

            return false;
        }

        private static Exception Innermost(Exception error)
        {
            while (error.InnerException != null)
            {
                error = error.InnerException;
            }

            return error;
        }
    }
}
